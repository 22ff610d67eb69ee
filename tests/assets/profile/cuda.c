/* Stands for libcuda.so.1: every call is noted in the file LOG and succeeds. */
#include <stdio.h>
#define CALL(name, ...) int name(__VA_ARGS__) { \
    FILE *log = fopen(LOG, "a"); fprintf(log, "%s\n", #name); fclose(log); return 0; }
CALL(cuInit, unsigned flags)
CALL(cuDeviceGet, int *device, int ordinal)
CALL(cuDevicePrimaryCtxRetain, void **context, int device)
CALL(cuCtxSetCurrent, void *context)
CALL(cuCtxSynchronize, void)
CALL(cuProfilerStart, void)
CALL(cuProfilerStop, void)
