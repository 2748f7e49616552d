// A management library as NVIDIA's driver has one (nvml.h), of a machine with one GPU.
#include <cstring>

// NOLINTBEGIN(readability-identifier-naming): names of the library
extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int gpu = 0;
  *device = &gpu;
  return std::strcmp(address, "0000:1b:00.0") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetClockInfo(void* /*device*/, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? 1755 : 3201;  // NVML_CLOCK_SM, NVML_CLOCK_MEM
  return 0;
}
int nvmlDeviceGetPowerUsage(void* /*device*/, unsigned* milliwatts) {
  *milliwatts = 650'500;
  return 0;
}
int nvmlDeviceGetTemperature(void* /*device*/, int sensor, unsigned* celsius) {
  *celsius = 61;
  return sensor == 0 ? 0 : 3;  // NVML_ERROR_NOT_SUPPORTED
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* /*device*/, unsigned long long* reasons) {
  *reasons = 0x4 | 0x40;  // power cap; too hot, says the hardware
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
