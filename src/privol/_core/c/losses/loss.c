#include "losses/pv_loss.h"

#include <math.h>

#include "base/pv_math.h"
#include "losses/pv_loss_rows.h"

static inline double clamp(double x, double lo, double hi) { return x < lo ? lo : (x > hi ? hi : x); }

static const double TINY = 0x1p-1000; /* more than all underflows in one row may lose */

/* The error of a slope: its own rounding, and its change within the prediction's error. */
static inline double off_by(double own, double far) { return own + TINY + far * (1.0 + 0x1p-40); }

/* ---- logistic: ln(1 + exp(-y p)) ------------------------------------------------------------- */

static double logistic_value(const pv_loss *loss, double p, double y) {
    (void)loss;
    double m = y * p;
    return m > 0 ? pv_log_above_one(pv_exp(-m)) : pv_log_above_one(pv_exp(m)) - m;
}

static double logistic_slope(const pv_loss *loss, double p, double y) {
    (void)loss;
    return -y * pv_sigmoid(-y * p);
}

static void logistic_expand(const pv_loss *loss, double p, double y, double *slope, double *curve, pv_seen *seen) {
    (void)loss;
    const double x = -y * p, off = x - seen->at;
    double e;
    if (fabs(off) <= PV_NEAR) { /* exp(-|x|), or its inverse if the sign has changed: then it is near 1 */
        e = seen->exponential * pv_exp_near(seen->at >= 0.0 ? -off : off);
    } else {
        e = pv_exp(-fabs(x));
        *seen = (pv_seen){x, e};
    }
    const double h = seen->at >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
    *slope = -y * h;
    *curve = h * (1.0 - h);
}

/* |phi'''| <= phi'', so phi'' grows by at most e^error within the error; slopes are between 0 and -y */
static double logistic_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) {
    (void)loss, (void)p, (void)y;
    const double far = error <= 0.5 ? 1.3 * error * (curve * (1.0 + 0x1p-40) + TINY) : fmin(1.0, 0.25 * error);
    return off_by(PV_SLOPE_ERROR * fabs(slope), far);
}

/* sigmoid(-M) at the root of logistic_implicit below where it is so near to target / k that one exponential serves, or -1:
 * M = target / k + d with d = (c / k) sigmoid(-M), and exp(M) = exp(target / k) exp(d). Newton as there, from d = 0, with
 * numerators and denominators multiplied by powers of p = 1 + exp(M). */
static inline double logistic_near(double k, double target, double c) {
    const double inverse = 1.0 / k, start = target * inverse, ratio = c * inverse;
    if (!(ratio <= PV_NEAR && fabs(start) <= 300.0)) return -1.0;
    const double e = pv_exp(start);
    double q = e, p = 1.0 + e, d = ratio * p / (p * p + ratio * e);
    for (int i = 0; i < 4; ++i) {
        q = e * pv_exp_near(d);
        p = 1.0 + q;
        const double h = 1.0 / p, step = p * (ratio - d * p) / (p * p + ratio * q);
        if (fabs(step) <= 5.9604644775390625e-08) return clamp(h - h * (1.0 - h) * step, 0.0, 1.0); /* 2^-24 */
        d += step;
        if (!(d >= 0.0 && d <= PV_NEAR)) return -1.0;
    }
    return -1.0;
}

/* In margins M = y m: F(M) = k M - c sigmoid(-M) - y b is increasing, with its root in [y b / k, (y b + c) / k].
 * Newton's method is quadratic with constant below 1/2 (|phi'''| <= phi''), so after a step below 2^-24 its point is
 * exact up to rounding, and so is the slope extrapolated along the step (|phi'''| <= 0.097). Far from the root, with
 * large c, Newton's method could alternate for ever between the two flat ends: a step that leaves the bracket, or
 * two steps that do not halve it, are replaced by bisection. */
static double logistic_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    (void)loss;
    if (c == 0.0) return 0.0;
    const double target = y * b, h0 = logistic_near(k, target, c);
    if (h0 >= 0.0) return -y * h0;
    double lo = target / k, hi = (target + c) / k, m = lo, width = hi - lo;
    double h = 0.0;
    for (int i = 0; i < 2200; ++i) {
        h = pv_sigmoid(-m);
        double dh = h * (1.0 - h);
        double f = (k * m - target) - c * h;
        double step = -f / (k + c * dh);
        if (f > 0)
            hi = m;
        else
            lo = m;
        if (fabs(step) <= 5.9604644775390625e-08) { /* 2^-24 */
            h -= dh * step;
            break;
        }
        double next = m + step;
        int slow = (i & 1) && hi - lo > 0.5 * width;
        if (i & 1) width = hi - lo;
        if (!(next > lo && next < hi) || slow) {
            next = lo + 0.5 * (hi - lo);
            if (next <= lo || next >= hi) break; /* neighbouring doubles */
        }
        m = next;
    }
    return -y * clamp(h, 0.0, 1.0);
}

/* ---- hinge: max(0, 1 - y p) ------------------------------------------------------------------- */

static double hinge_value(const pv_loss *loss, double p, double y) {
    (void)loss;
    double e = 1.0 - y * p;
    return e > 0 ? e : 0.0;
}

static double hinge_slope(const pv_loss *loss, double p, double y) {
    (void)loss;
    return y * p < 1.0 ? -y : 0.0;
}

static double hinge_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    (void)loss;
    return c == 0.0 ? 0.0 : -y * clamp((k - y * b) / c, 0.0, 1.0);
}

/* ---- smoothed hinge of half width w: quadratic for |1 - y p| <= w ------------------------------- */

static double smooth_hinge_value(const pv_loss *loss, double p, double y) {
    double e = 1.0 - y * p, w = loss->width;
    if (e <= -w) return 0.0;
    if (e >= w) return e;
    return (e + w) * (e + w) / (4.0 * w);
}

static double smooth_hinge_slope(const pv_loss *loss, double p, double y) {
    return -y * clamp((1.0 - y * p + loss->width) / (2.0 * loss->width), 0.0, 1.0);
}

static double smooth_hinge_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    double w = loss->width;
    return -y * clamp(((1.0 + w) * k - y * b) / (2.0 * w * k + c), 0.0, 1.0);
}

static double smooth_hinge_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) {
    (void)slope, (void)curve;
    const double width = loss->width;
    const int bent = fabs(1.0 - y * p) <= (width + error) * (1.0 + 0x1p-50);
    return off_by(PV_SLOPE_ERROR, bent ? fmin(1.0, error / (2.0 * width)) : 0.0);
}

/* ---- squared: (p - y)^2 / 2 --------------------------------------------------------------------- */

static double squared_value(const pv_loss *loss, double p, double y) {
    (void)loss;
    return 0.5 * (p - y) * (p - y);
}

static double squared_slope(const pv_loss *loss, double p, double y) {
    (void)loss;
    return p - y;
}

static double squared_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    (void)loss;
    return (b - k * y) / (k + c);
}

static double squared_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) {
    (void)loss, (void)p, (void)y, (void)curve;
    return off_by(PV_SLOPE_ERROR * fabs(slope), error);
}

/* ---- absolute: |p - y| -------------------------------------------------------------------------- */

static double absolute_value(const pv_loss *loss, double p, double y) {
    (void)loss;
    return fabs(p - y);
}

static double absolute_slope(const pv_loss *loss, double p, double y) {
    (void)loss;
    return p > y ? 1.0 : (p < y ? -1.0 : 0.0);
}

static double absolute_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    (void)loss;
    return c == 0.0 ? 0.0 : clamp((b - k * y) / c, -1.0, 1.0);
}

/* ---- Huber of threshold w ------------------------------------------------------------------------ */

static double huber_value(const pv_loss *loss, double p, double y) {
    double e = fabs(p - y), w = loss->width;
    return e <= w ? 0.5 * e * e : w * (e - 0.5 * w);
}

static double huber_slope(const pv_loss *loss, double p, double y) { return clamp(p - y, -loss->width, loss->width); }

static double huber_implicit(const pv_loss *loss, double k, double b, double c, double y) {
    return clamp((b - k * y) / (k + c), -loss->width, loss->width);
}

static double huber_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) {
    (void)curve;
    const double width = loss->width;
    const int bent = fabs(p - y) <= (width + error) * (1.0 + 0x1p-50);
    return off_by(PV_SLOPE_ERROR * fabs(slope), bent ? fmin(2.0 * width, error) : 0.0);
}

/* ---- any other loss -------------------------------------------------------------------------------- */

/* F(m) = k m + c slope(m) - b is increasing; its root lies in (b -+ c lipschitz) / k. Regula falsi with the Illinois
 * halving is used, with bisection whenever three steps have not halved the bracket, down to neighbouring doubles: at
 * a kink of the loss the bracket closes around it. The slope follows from the equation, which stays correct at a
 * kink, where slope() itself jumps. */
double pv_implicit_bracketed(const pv_loss *loss, double k, double b, double c, double y) {
    if (c == 0.0) return 0.0;
    double g = loss->lipschitz;
    double lo = (b - c * g) / k, hi = (b + c * g) / k;
    double flo = (k * lo - b) + c * loss->slope(loss, lo, y), fhi = (k * hi - b) + c * loss->slope(loss, hi, y);
    if (flo != flo || fhi != fhi) return flo + fhi;
    double m = 0.5 * (lo + hi), width = hi - lo;
    int side = 0;
    for (int i = 0; i < 2200; ++i) {
        if (flo >= 0.0) {
            m = lo;
            break;
        }
        if (fhi <= 0.0) {
            m = hi;
            break;
        }
        m = (lo * fhi - hi * flo) / (fhi - flo);
        if (i % 3 == 2) {
            if (hi - lo > 0.5 * width) m = lo + 0.5 * (hi - lo);
            width = hi - lo;
        }
        if (!(m > lo && m < hi)) m = lo + 0.5 * (hi - lo);
        if (!(m > lo && m < hi)) break; /* neighbouring doubles */
        double f = (k * m - b) + c * loss->slope(loss, m, y);
        if (f != f) return f;
        if (f == 0.0) break;
        if (f < 0.0) {
            lo = m;
            flo = f;
            if (side < 0) fhi *= 0.5;
            side = -1;
        } else {
            hi = m;
            fhi = f;
            if (side > 0) flo *= 0.5;
            side = 1;
        }
    }
    return clamp((b - k * m) / c, -g, g);
}

double pv_custom_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) {
    (void)slope, (void)curve;
    return off_by(PV_CUSTOM_ERROR * (loss->lipschitz + loss->curvature * (1.0 + fabs(p) + fabs(y))),
                  fmin(2.0 * loss->lipschitz, loss->curvature * error));
}

/* ---- the tables ------------------------------------------------------------------------------------- */

#define TABLE(name, expand, off) {name##_value, name##_slope, name##_implicit, expand, off, 0.0, 0.0, 0.0, 0}
static const pv_loss tables[PV_LOSS_COUNT] = {
    [PV_LOGISTIC] = TABLE(logistic, logistic_expand, logistic_off),
    [PV_HINGE] = TABLE(hinge, 0, 0),
    [PV_SMOOTH_HINGE] = TABLE(smooth_hinge, 0, smooth_hinge_off),
    [PV_SQUARED] = TABLE(squared, 0, squared_off),
    [PV_ABSOLUTE] = TABLE(absolute, 0, 0),
    [PV_HUBER] = TABLE(huber, 0, huber_off),
};

void pv_loss_bind(pv_loss *loss, int code, double width) {
    *loss = tables[code];
    loss->width = width;
}
