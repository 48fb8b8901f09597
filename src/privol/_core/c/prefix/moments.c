#include "prefix/pv_moments.h"

#include "base/pv_level.h"

#define LEVEL
#define MOMENTS moments_baseline
#include "prefix/moments.inc.h"
#undef LEVEL
#undef MOMENTS

#if PV_TARGETS
#define LEVEL PV_V3
#define MOMENTS moments_v3
#include "prefix/moments.inc.h"
pv_moments pv_moments_at(int level) { return level > 0 ? moments_v3 : moments_baseline; }
#else
pv_moments pv_moments_at(int level) {
    (void)level;
    return moments_baseline;
}
#endif
