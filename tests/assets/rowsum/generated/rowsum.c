/* Row sums.
 * artifact-source: kernels/rowsum.src blake3:6bbfccb0426fc7a259b2a62e914d646ae316f23a78ef7ae68f519ef0c49de5fd
 * artifact-compiler: by-hand 1
 * artifact-flags: --target c99
 */
#include <stddef.h>

void rowsum(size_t rows, size_t columns, const float *x, float *y)
{
    for (size_t n = 0; n < rows; ++n) {
        float sum = 0.0f;
        for (size_t c = 0; c < columns; ++c)
            sum += x[n * columns + c];
        y[n] = sum;
    }
}
