import AppStore
import Encoding
import Subscriptions

// Properties of every accepted body, with the secret of the fixtures and with the body's own secret.

private let fixtureSecret = "0123456789abcdef0123456789abcdef"
private let fixtureApp = "com.example.magazine"
private let fixtureApps = Apps([App(bundleId: fixtureApp, sharedSecrets: [fixtureSecret])])

func checkVerification(of body: [UInt8], as event: Event?) throws(BrokenPromise) {
    if let taken = try check(body, by: fixtureApps, secret: fixtureSecret) {
        try promise(
            decodedEvent(taken.evidence.bytes) != nil, "an accepted body can be decoded again without its secret")
    }
    guard let event, let root = try? JSONDocument(body).root, let own = root["password"]?.string,
        own.utf8.count >= App.sharedSecretBytesMin
    else { return }
    let app = App(bundleId: event.app ?? fixtureApp, sharedSecrets: [own])
    let taken = try check(body, by: Apps([app]), secret: own)
    // Without such a secret the body is not a notification.
    let isInKey = "notification_type".contains(own)
    try promise(
        taken != nil || isInKey || own.utf8.allSatisfy { $0 <= 0x20 }, "a body with the secret of its app is accepted")
}

private func check(
    _ body: [UInt8], by apps: Apps, secret: String
) throws(BrokenPromise) -> VerifiedNotification? {
    guard case .v1(let notification)? = try? AppleNotification(decoding: body),
        let taken = try? apps.verify(notification, receivedAt: receivedAt)
    else { return nil }
    try checkEvidence(taken.evidence)
    let again = decodedEvent(taken.evidence.bytes)
    try promise(again == nil || again == taken.event, "the stored body decodes to the same event")
    try checkAbsence(of: secret, in: taken.evidence)
    return taken
}

/// Checks an answer of verifyReceipt as if each of Apple's hosts had given it.
func checkAnswer(_ body: [UInt8], as event: Event?) throws(BrokenPromise) {
    // The stored form of a deletion is not an answer itself.
    guard let answer = try? ReceiptAnswer(decoding: body) else { return }
    let app = event?.app ?? fixtureApp
    let apps = Apps([App(bundleId: app, sharedSecrets: [fixtureSecret])])
    for host in ReceiptHost.allCases {
        let given = AnswerFromApple(
            answer: answer, host: host, receipt: Receipt(stored: [0x30, 0x00]), receivedAt: receivedAt)
        guard let verified = try? apps.verify(given, of: app, subscriptions: ["1000000000000001"]) else { continue }
        try checkEvidence(verified.evidence)
        let again = try? StoredAnswer(decoding: verified.evidence.bytes)
            .event(app: app, environment: host.environment, receivedAt: receivedAt)
        try promise(again == verified.event, "a stored answer decodes to the same event")
        try checkAbsence(of: fixtureSecret, in: verified.evidence)
    }
}

/// No part of the evidence contains the secret.
private func checkAbsence(of secret: String, in evidence: Evidence) throws(BrokenPromise) {
    guard let kept = try? JSONDocument(evidence.bytes) else {
        throw BrokenPromise(description: "a body without its secret is JSON")
    }
    let needle = Array(secret.utf8)
    var texts: [JSONValue] = []
    kept.forEachString { texts.append($0) }
    for text in texts {
        let content = kept.bytes[text.contentRange]
        try promise(!holds(content, needle), "no string of a stored body contains the secret")
        if text.isEscaped {
            try promise(!holds(unescaped(content)[...], needle), "no string contains the secret with escapes")
        }
    }
}

private func holds(_ text: ArraySlice<UInt8>, _ needle: [UInt8]) -> Bool {
    guard let first = needle.first, text.count >= needle.count else { return false }
    return text.indices.dropLast(needle.count - 1).contains {
        text[$0] == first && text[$0..<$0 + needle.count].elementsEqual(needle)
    }
}

/// The text as a lenient parser reads it: invalid Unicode, which the product rejects, is kept.
private func unescaped(_ content: ArraySlice<UInt8>) -> [UInt8] {
    var result: [UInt8] = []
    var rest = content
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "\\"), let escape = rest.popFirst() else {
            result.append(byte)
            continue
        }
        switch escape {
        case UInt8(ascii: "b"): result.append(8)
        case UInt8(ascii: "f"): result.append(12)
        case UInt8(ascii: "n"): result.append(10)
        case UInt8(ascii: "r"): result.append(13)
        case UInt8(ascii: "t"): result.append(9)
        case UInt8(ascii: "u"):
            let code = UInt32(String(decoding: rest.prefix(4), as: UTF8.self), radix: 16)
            rest = rest.dropFirst(4)
            let scalar = code.flatMap(Unicode.Scalar.init) ?? "\u{FFFD}"
            result += Array(String(Character(scalar)).utf8)
        default: result.append(escape)
        }
    }
    return result
}

// MARK: - Evidence

/// The log stores decoded bytes instead of base64, so they must encode to the base64 that arrived.
func checkEvidence(_ evidence: Evidence) throws(BrokenPromise) {
    var bytes: [UInt8] = []
    for piece in evidence.pieces {
        switch piece {
        case .bytes(let piece): bytes += piece
        case .base64(let text): Base64.append(text.bytes[...], text.alphabet, to: &bytes)
        case .jws(let jws): append(jws, to: &bytes)
        }
    }
    try promise(bytes == evidence.bytes, "evidence is encoded to the bytes that it was decoded from")
}

private func append(_ jws: JWSText, to bytes: inout [UInt8]) {
    var payload: [UInt8] = []
    var copied = 0
    for (range, inner) in jws.inner {
        payload += jws.payload.bytes[copied..<range.lowerBound]
        append(inner, to: &payload)
        copied = range.upperBound
    }
    payload += jws.payload.bytes[copied...]
    bytes += jws.header
    bytes.append(UInt8(ascii: "."))
    Base64.append(payload[...], jws.payload.alphabet, to: &bytes)
    bytes.append(UInt8(ascii: "."))
    Base64.append(jws.signature.bytes[...], jws.signature.alphabet, to: &bytes)
}
