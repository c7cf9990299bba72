import DecoderProperties
import Dispatch
import Glibc

/// Feeds bytes that libFuzzer makes up to the decoder and the verifier of notifications, and aborts on the first
/// promise that does not hold. Run by deploy/fuzz; no part of a normal build.
@main
enum FuzzDecoder {
    static func main() {
        MemoryMeter.install()
        // Kept for good, behind a pointer whose spare bits are in use: it would be taken for a leak.
        disableLeakDetection()
        DecoderCheck.prepare()
        enableLeakDetection()
        var argumentCount = CommandLine.argc
        var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
        // The linker is told where `main` is, so libFuzzer's own one cannot be used; this is what that would do.
        exit(runDriver(&argumentCount, &arguments, testOneInput))
    }
}

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ argumentCount: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_silgen_name("__lsan_disable") private func disableLeakDetection()
@_silgen_name("__lsan_enable") private func enableLeakDetection()

/// One input. The name is the one that fuzzing engines look for.
@_cdecl("LLVMFuzzerTestOneInput")
package func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    let check = DecoderCheck(input)
    do throws(BrokenPromise) {
        let event = try check.decode { decoding throws(BrokenPromise) in
            let bytesHeld = MemoryMeter.peak(decoding)
            try promise(
                bytesHeld <= memoryMax(bodyBytes: check.body.count), "decoding holds no more memory than agreed")
        }
        let finished = DispatchSemaphore(value: 0)
        Task.detached {
            do throws(BrokenPromise) { try await check.verify(event) } catch { fail(error) }
            finished.signal()
        }
        finished.wait()
    } catch {
        fail(error)
    }
    return 0
}

/// Bytes that decoding may hold at one time, beside the body.
///
/// Bodies as Apple sends them take up to three times their size. The densest JSON, `[1,1,…]`, takes twelve times:
/// a value of 16 bytes for every two of the text, and half as much again while the list of them grows. Rows that
/// hold next to nothing take up to fifty times and are what the base is for; it also bounds what such a body can do.
private func memoryMax(bodyBytes: Int) -> Int {
    4 << 20 + 16 * bodyBytes
}

/// Aborts, naming the promise.
private func fail(_ broken: BrokenPromise) -> Never {
    let message = Array("BROKEN PROMISE: \(broken)\n".utf8)
    _ = write(STDERR_FILENO, message, message.count)
    abort()
}
