/* Random inputs for the fuzz target of the rounding of noise, so that the target works between longer runs. */
#include "../fuzz/fuzz_noise.c"

int main(void) {
    uint8_t data[2048];
    for (int trial = 0; trial < 20000; ++trial) {
        const size_t size = (size_t)(random_word() % (trial % 50 ? 300 : sizeof data));
        for (size_t i = 0; i < size; ++i) data[i] = (uint8_t)random_word();
        if (trial % 3 == 0) /* words of zeros, of ones, and of the tail */
            for (size_t i = HEADER; i < size; ++i)
                if (random_word() % 4 == 0) data[i] = random_word() % 2 ? 0 : 0xFF;
        CHECK(LLVMFuzzerTestOneInput(data, size) == 0);
        digest((double)size);
    }
    return finish("fuzz_noise");
}
