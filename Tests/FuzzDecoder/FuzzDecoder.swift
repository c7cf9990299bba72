import AppStore
import Glibc
import Subscriptions

/// Feeds bytes that libFuzzer makes up to the decoder and the verifier of notifications, and aborts on the first
/// promise that does not hold. Run by deploy/fuzz; no part of a normal build.
@main
enum FuzzDecoder {
    static func main() {
        MemoryMeter.install()
        // Kept for good, behind a pointer whose spare bits are in use: it would be taken for a leak.
        disableLeakDetection()
        prepareVerifier()
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
    let signed = SignedInput(input)
    let body = signed?.body ?? input
    var event: Event?
    let bytesHeld = MemoryMeter.peak { event = decodedEvent(body) }
    promise(bytesHeld <= memoryMax(bodyBytes: body.count), "decoding holds no more memory than agreed")
    if let event { checkEvent(event) }
    if case .v2(let notification)? = try? AppleNotification(decoding: body) { checkEvidence(notification.evidence) }
    if signed != nil || event?.source == .appleV2 {
        checkRefusal(of: body, as: event)
    } else {
        checkVerification(of: body, as: event)
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

let receivedAt = Instant(milliseconds: 1_637_366_400_000) ?? .latest

func decodedEvent(_ body: [UInt8]) -> Event? {
    try? AppleNotification(decoding: body).event(receivedAt: receivedAt)
}

func jsonObject(_ content: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.object(content)
    return writer.bytes
}

/// Aborts, naming the promise, unless it was kept.
func promise(_ isKept: Bool, _ text: StaticString) {
    guard !isKept else { return }
    let message = Array("BROKEN PROMISE: \(text)\n".utf8)
    _ = write(STDERR_FILENO, message, message.count)
    abort()
}
