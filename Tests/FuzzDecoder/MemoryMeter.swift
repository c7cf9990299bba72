/// Measures the peak memory of one input. libFuzzer's limits apply to single allocations or to the whole process with
/// its corpus.
enum MemoryMeter {
    nonisolated(unsafe) private static var isOn = false
    nonisolated(unsafe) private static var live = 0
    nonisolated(unsafe) private static var highest = 0

    /// Registers hooks with the allocator of the address sanitizer.
    static func install() {
        _ = installHooks(
            { _, size in
                guard MemoryMeter.isOn else { return }
                MemoryMeter.live &+= size
                if MemoryMeter.live > MemoryMeter.highest { MemoryMeter.highest = MemoryMeter.live }
            },
            { pointer in
                guard MemoryMeter.isOn, let pointer else { return }
                MemoryMeter.live &-= allocatedSize(pointer)
            })
    }

    /// The peak number of bytes allocated by the work.
    static func peak(_ work: () -> Void) -> Int {
        live = 0
        highest = 0
        isOn = true
        work()
        isOn = false
        return highest
    }
}

@_silgen_name("__sanitizer_install_malloc_and_free_hooks")
private func installHooks(
    _ onMalloc: @convention(c) (UnsafeRawPointer?, Int) -> Void, _ onFree: @convention(c) (UnsafeRawPointer?) -> Void
) -> CInt

@_silgen_name("__sanitizer_get_allocated_size")
private func allocatedSize(_ pointer: UnsafeRawPointer) -> Int
