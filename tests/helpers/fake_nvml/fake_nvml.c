/* A stand-in for libnvidia-ml.so.1 that says what a text file tells it to say.
 *
 * The file is named by FAKE_NVML. Each line:  WHO KEY RETURN VALUE...
 *   WHO     "-" for the system, "*" for every GPU, a number for one GPU
 *   KEY     the function without "nvml"/"Device"/"System" and version suffix, ":argument" where it takes one
 *   RETURN  an NVML return code, or "hang", or "crash"
 *   VALUE   what is written to the output arguments, in their order
 * The last line that fits wins; a question that no line answers is "not supported" (3).
 * The file is read again when it changes, so a driver can fall ill while it is watched.
 * Compiled with -DOLD_DRIVER, the functions that came after r470 are not exported at all; with -DDEPRECATED_GONE,
 * those that NVIDIA calls deprecated are not; -DWIDE_PROCESSES: see there.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned int uint;
typedef unsigned long long ull;
typedef void *device;

#define SYSTEM -1
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define MAX_LINES 4096
#define MIG_BASE 0x1000

static char *lines[MAX_LINES];
static int count_of_lines = -1;
static struct stat seen;
static int loading;

/* Old lines are never freed: another thread may be reading them. */
static void load(void) {
    char buffer[4096];
    struct stat now;
    const char *path = getenv("FAKE_NVML");
    FILE *file;
    int count = 0;
    if (!path || stat(path, &now)) { if (count_of_lines < 0) count_of_lines = 0; return; }
    if (count_of_lines >= 0 && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && now.st_mtime == seen.st_mtime
        && now.st_size == seen.st_size) return;
    if (__sync_lock_test_and_set(&loading, 1)) return;
    seen = now;
    file = fopen(path, "r");
    while (file && count < MAX_LINES && fgets(buffer, sizeof buffer, file)) {
        buffer[strcspn(buffer, "\n")] = 0;
        if (buffer[0] && buffer[0] != '#') lines[count++] = strdup(buffer);
    }
    if (file) fclose(file);
    count_of_lines = count;
    __sync_lock_release(&loading);
}

/* The return code of the last line that fits; *values points at the text behind it. */
static int ask(int gpu, const char *key, const char **values) {
    char who[16], name[128], code[16];
    int consumed;
    load();
    for (int i = count_of_lines - 1; i >= 0; i--) {
        consumed = 0;
        if (sscanf(lines[i], "%15s %127s %15s %n", who, name, code, &consumed) < 3) continue;
        if (strcmp(name, key) && strcmp(name, "*")) continue;
        if (gpu == SYSTEM ? strcmp(who, "-") : strcmp(who, "*") && (strcmp(who, "-") == 0 || atoi(who) != gpu))
            continue;
        if (!strcmp(code, "hang")) for (;;) pause();
        if (!strcmp(code, "crash")) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
        if (values) *values = consumed ? lines[i] + consumed : "";
        return atoi(code);
    }
    return NOT_SUPPORTED;
}

static int index_of(device gpu) { return (int)(uintptr_t)gpu - 1; }

static ull number(const char **text) {
    char *end;
    ull value = strtoull(*text, &end, 0);
    *text = end;
    return value;
}

static int ask_text(int gpu, const char *key, char *out, uint size) {
    const char *values;
    int code = ask(gpu, key, &values);
    if (!code) snprintf(out, size, "%s", values);
    return code;
}

static int ask_uint(int gpu, const char *key, uint *out) {
    const char *values;
    int code = ask(gpu, key, &values);
    if (!code) *out = (uint)number(&values);
    return code;
}

static int ask_uint_for(device gpu, const char *key, uint argument, uint *out) {
    char full[128];
    snprintf(full, sizeof full, "%s:%u", key, argument);
    return ask_uint(index_of(gpu), full, out);
}

#define TEXT(function, key) \
    int function(device gpu, char *out, uint size) { return ask_text(index_of(gpu), key, out, size); }
#define UINT(function, key) \
    int function(device gpu, uint *out) { return ask_uint(index_of(gpu), key, out); }
#define UINT_FOR(function, key) \
    int function(device gpu, uint argument, uint *out) { return ask_uint_for(gpu, key, argument, out); }
#define PAIR(function, key)                                       \
    int function(device gpu, uint *first, uint *second) {         \
        const char *values;                                       \
        int code = ask(index_of(gpu), key, &values);              \
        if (!code) { *first = (uint)number(&values); *second = (uint)number(&values); } \
        return code;                                              \
    }
#define ULL(function, key)                               \
    int function(device gpu, ull *out) {                 \
        const char *values;                              \
        int code = ask(index_of(gpu), key, &values);     \
        if (!code) *out = number(&values);               \
        return code;                                     \
    }

/* ---- the system ---- */
int nvmlInitWithFlags(uint flags) { (void)flags; return ask(SYSTEM, "Init", NULL); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "an error of the fake driver"; }
int nvmlSystemGetDriverVersion(char *out, uint size) { return ask_text(SYSTEM, "DriverVersion", out, size); }
int nvmlSystemGetNVMLVersion(char *out, uint size) { return ask_text(SYSTEM, "NVMLVersion", out, size); }
int nvmlSystemGetCudaDriverVersion(int *out) { return ask_uint(SYSTEM, "CudaDriverVersion", (uint *)out); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
int nvmlDeviceGetCount_v2(uint *out) { return ask_uint(SYSTEM, "Count", out); }
int nvmlDeviceGetHandleByIndex_v2(uint index, device *out) {
    int code = ask((int)index, "HandleByIndex", NULL);
    *out = (device)(uintptr_t)(index + 1);
    return code;
}

/* ---- identity ---- */
TEXT(nvmlDeviceGetName, "Name")
TEXT(nvmlDeviceGetUUID, "UUID")
TEXT(nvmlDeviceGetVbiosVersion, "VbiosVersion")
UINT(nvmlDeviceGetArchitecture, "Architecture")
UINT(nvmlDeviceGetDisplayActive, "DisplayActive")
PAIR(nvmlDeviceGetCudaComputeCapability, "CudaComputeCapability")

typedef struct { char legacy[16]; uint domain, bus, dev, id, subsystem; char bus_id[32]; } pci_info;
int nvmlDeviceGetPciInfo_v3(device gpu, pci_info *out) {
    memset(out, 0, sizeof *out);
    return ask_text(index_of(gpu), "PciInfo", out->bus_id, sizeof out->bus_id);
}

typedef struct { uint version; ull total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(device gpu, memory_v2 *out) {
    const char *values;
    int code = ask(index_of(gpu), "MemoryInfo", &values);
    if (!code) { out->total = number(&values); out->used = number(&values); out->free = out->total - out->used; }
    return code;
}

typedef struct { uint gpu, memory; } utilization;
int nvmlDeviceGetUtilizationRates(device gpu, utilization *out) {
    const char *values;
    int code = ask(index_of(gpu), "UtilizationRates", &values);
    if (!code) { out->gpu = (uint)number(&values); out->memory = (uint)number(&values); }
    return code;
}

/* ---- memory errors ---- */
PAIR(nvmlDeviceGetEccMode, "EccMode")
int nvmlDeviceGetTotalEccErrors(device gpu, uint type, uint counter, ull *out) {
    char key[64];
    const char *values;
    snprintf(key, sizeof key, "TotalEccErrors:%u:%u", type, counter);
    int code = ask(index_of(gpu), key, &values);
    if (!code) *out = number(&values);
    return code;
}
int nvmlDeviceGetMemoryErrorCounter(device gpu, uint type, uint counter, uint location, ull *out) {
    char key[64];
    const char *values;
    snprintf(key, sizeof key, "MemoryErrorCounter:%u:%u:%u", type, counter, location);
    int code = ask(index_of(gpu), key, &values);
    if (!code) *out = number(&values);
    return code;
}
int nvmlDeviceGetRetiredPages(device gpu, uint cause, uint *count, ull *pages) {
    uint total = 0;
    int code = ask_uint_for(gpu, "RetiredPages", cause, &total);
    if (code) return code;
    if (!pages || *count < total) { *count = total; return total ? INSUFFICIENT_SIZE : 0; }
    for (uint i = 0; i < total; i++) pages[i] = 0x1000ull * (i + 1);
    *count = total;
    return 0;
}
UINT(nvmlDeviceGetRetiredPagesPendingStatus, "RetiredPagesPendingStatus")
int nvmlDeviceValidateInforom(device gpu) { return ask(index_of(gpu), "ValidateInforom", NULL); }
int nvmlDeviceGetRemappedRows(device gpu, uint *corr, uint *unc, uint *pending, uint *failure) {
    const char *values;
    int code = ask(index_of(gpu), "RemappedRows", &values);
    if (code) return code;
    *corr = (uint)number(&values);
    *unc = (uint)number(&values);
    *pending = (uint)number(&values);
    *failure = (uint)number(&values);
    return 0;
}
typedef struct { uint max, high, partial, low, none; } histogram;
int nvmlDeviceGetRowRemapperHistogram(device gpu, histogram *out) {
    memset(out, 0, sizeof *out);
    return ask_uint(index_of(gpu), "RowRemapperHistogram", &out->none);
}
#ifndef OLD_DRIVER
typedef struct { uint version; ull counts[11]; uint exceeded; } sram_status;
int nvmlDeviceGetSramEccErrorStatus(device gpu, sram_status *out) {
    return ask_uint(index_of(gpu), "SramEccErrorStatus", &out->exceeded);
}
#endif

/* ---- fields ---- */
typedef struct {
    uint id, scope;
    int64_t time, latency;
    uint type, code;
    union { ull big; uint small; } value;
} field;
int nvmlDeviceGetFieldValues(device gpu, int count, field *out) {
    int whole = ask(index_of(gpu), "FieldValues", NULL);
    if (whole && whole != NOT_SUPPORTED) return whole;
    for (int i = 0; i < count; i++) {
        char key[64];
        const char *values;
        snprintf(key, sizeof key, "FieldValues:%u", out[i].id);
        out[i].code = (uint)ask(index_of(gpu), key, &values);
        out[i].type = out[i].id == 82 ? 1 : 3;
        if (out[i].code) continue;
        if (out[i].type == 1) out[i].value.small = (uint)number(&values);
        else out[i].value.big = number(&values);
    }
    return 0;
}

/* ---- clocks, power, heat ---- */
#ifndef OLD_DRIVER
ULL(nvmlDeviceGetCurrentClocksEventReasons, "ClocksEventReasons")
#endif
#ifndef DEPRECATED_GONE
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, "ClocksEventReasons")
UINT_FOR(nvmlDeviceGetTemperature, "Temperature")
#endif
#ifndef OLD_DRIVER
typedef struct { uint version, sensor; int degrees; } temperature;
int nvmlDeviceGetTemperatureV(device gpu, temperature *out) {
    return ask_uint_for(gpu, "Temperature", out->sensor, (uint *)&out->degrees);
}
#endif
UINT_FOR(nvmlDeviceGetClockInfo, "ClockInfo")
UINT_FOR(nvmlDeviceGetMaxClockInfo, "MaxClockInfo")
UINT_FOR(nvmlDeviceGetApplicationsClock, "ApplicationsClock")
UINT_FOR(nvmlDeviceGetDefaultApplicationsClock, "DefaultApplicationsClock")
UINT(nvmlDeviceGetPowerUsage, "PowerUsage")
UINT(nvmlDeviceGetEnforcedPowerLimit, "EnforcedPowerLimit")
UINT(nvmlDeviceGetPowerManagementDefaultLimit, "PowerManagementDefaultLimit")
UINT(nvmlDeviceGetPersistenceMode, "PersistenceMode")
UINT_FOR(nvmlDeviceGetTemperatureThreshold, "TemperatureThreshold")
#ifndef OLD_DRIVER
typedef struct { uint version; int margin; } margin_info;
int nvmlDeviceGetMarginTemperature(device gpu, margin_info *out) {
    return ask_uint(index_of(gpu), "MarginTemperature", (uint *)&out->margin);
}
#endif

/* ---- links ---- */
UINT(nvmlDeviceGetCurrPcieLinkWidth, "CurrPcieLinkWidth")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "MaxPcieLinkWidth")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "CurrPcieLinkGeneration")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "MaxPcieLinkGeneration")
UINT(nvmlDeviceGetPcieReplayCounter, "PcieReplayCounter")
UINT_FOR(nvmlDeviceGetNvLinkState, "NvLinkState")
int nvmlDeviceGetNvLinkErrorCounter(device gpu, uint link, uint counter, ull *out) {
    char key[64];
    const char *values;
    snprintf(key, sizeof key, "NvLinkErrorCounter:%u", counter);
    int code = ask(index_of(gpu), key, &values);
    (void)link;
    if (!code) *out = number(&values);
    return code;
}
#ifndef OLD_DRIVER
typedef struct {
    uint version;
    uint8_t cluster[16];
    uint status, clique, state, mask;
    uint8_t summary;
} fabric_info;
int nvmlDeviceGetGpuFabricInfoV(device gpu, fabric_info *out) {
    const char *values;
    int code = ask(index_of(gpu), "GpuFabricInfo", &values);
    if (code) return code;
    out->state = (uint)number(&values);
    out->status = (uint)number(&values);
    if (out->version >> 24 >= 3) out->summary = (uint8_t)number(&values);
    return 0;
}
#endif

/* ---- use ---- */
UINT(nvmlDeviceGetComputeMode, "ComputeMode")
PAIR(nvmlDeviceGetMigMode, "MigMode")
UINT(nvmlDeviceGetMaxMigDeviceCount, "MaxMigDeviceCount")
int nvmlDeviceGetMigDeviceHandleByIndex(device gpu, uint slot, device *out) {
    char key[64];
    snprintf(key, sizeof key, "MigDevice:%u", slot);
    *out = (device)(uintptr_t)(MIG_BASE + (uint)index_of(gpu) * 16 + slot + 1);
    return ask(index_of(gpu), key, NULL);
}
/* Drivers 535.43 to 535.86 have a field more. */
#ifdef WIDE_PROCESSES
typedef struct { uint pid; ull memory; uint instance, compute; ull confidential; } process;
#else
typedef struct { uint pid; ull memory; uint instance, compute; } process;
#endif
static int processes(device gpu, const char *key, uint *count, process *out) {
    const char *values;
    int code = ask(index_of(gpu), key, &values);
    if (code) return code;
    uint total = (uint)number(&values);
    if (total && (!out || *count < total)) { *count = total; return INSUFFICIENT_SIZE; }
    for (uint i = 0; i < total; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].pid = (uint)number(&values);
        out[i].memory = number(&values);
    }
    *count = total;
    return 0;
}
#define PROCESSES(kind, version) \
    int nvmlDeviceGet##kind##RunningProcesses_##version(device gpu, uint *count, process *out) { \
        return processes(gpu, #kind "Processes", count, out); \
    }
#ifndef DEPRECATED_GONE
PROCESSES(Compute, v2)
PROCESSES(Graphics, v2)
#endif
#ifndef OLD_DRIVER
PROCESSES(Compute, v3)
PROCESSES(Graphics, v3)
#endif

/* ---- performance monitoring: "GpmSupport 0 1"; "GpmMetric:2 0 450" is 45.0 of metric 2, in tenths ---- */
#ifndef OLD_DRIVER
typedef struct { uint version, supported; } gpm_support;
int nvmlGpmQueryDeviceSupport(device gpu, gpm_support *out) { return ask_uint(index_of(gpu), "GpmSupport", &out->supported); }
int nvmlGpmSampleAlloc(device *sample) { *sample = calloc(1, sizeof(int)); return 0; }
int nvmlGpmSampleFree(device sample) { free(sample); return 0; }
int nvmlGpmSampleGet(device gpu, device sample) { *(int *)sample = index_of(gpu); return 0; }
typedef struct { uint id, code; double value; char *names[3]; } gpm_metric;
typedef struct { uint version, count; device first, second; gpm_metric metrics[]; } gpm_metrics;
int nvmlGpmMetricsGet(gpm_metrics *asked) {
    for (uint i = 0; i < asked->count; i++) {
        char key[64];
        uint tenths = 0;
        snprintf(key, sizeof key, "GpmMetric:%u", asked->metrics[i].id);
        asked->metrics[i].code = (uint)ask_uint(*(int *)asked->first, key, &tenths);
        asked->metrics[i].value = tenths / 10.0;
    }
    return asked->version == 1 ? 0 : 2;
}
#endif

/* ---- events: "- Event 0 GPU TYPE DATA" is delivered once ---- */
typedef struct { device gpu; ull type, data; uint gpu_instance, compute_instance; } event_data;

int nvmlEventSetCreate(void **set) { *set = (void *)1; return 0; }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceGetSupportedEventTypes(device gpu, ull *types) {
    *types = 0xffff;
    return ask(index_of(gpu), "SupportedEventTypes", NULL) == 4 ? 4 : 0;
}
int nvmlDeviceRegisterEvents(device gpu, ull types, void *set) { (void)gpu; (void)types; (void)set; return 0; }
int nvmlEventSetWait_v2(void *set, event_data *out, uint timeout) {
    static int delivered;
    const char *values;
    (void)set;
    usleep((timeout > 100 ? 100 : timeout) * 1000);
    if (delivered || ask(SYSTEM, "Event", &values)) return 10;
    delivered = 1;
    memset(out, 0, sizeof *out);
    out->gpu = (device)(uintptr_t)(number(&values) + 1);
    out->type = number(&values);
    out->data = number(&values);
    return 0;
}
