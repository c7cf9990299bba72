import AppStore
import Crypto
import Foundation
import Simulation
import Subscriptions
import Testing

/// A body with one fault in its signed text.
struct WrongText: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var refusal: Refusal
    private var make: @Sendable () -> [UInt8]

    var body: [UInt8] { make() }

    init(_ name: String, _ refusal: Refusal, _ make: @escaping @Sendable () -> [UInt8]) {
        testDescription = name
        self.refusal = refusal
        self.make = make
    }

    init(_ name: String, _ failure: VerificationFailure, _ make: @escaping @Sendable () -> [UInt8]) {
        self.init(name, .unverified(failure, .notification), make)
    }

    init(_ name: String, _ problem: MalformedJWS, _ make: @escaping @Sendable () -> [UInt8]) {
        self.init(name, .undecodable(.malformed(problem, .notification)), make)
    }

    static let payload = V2Body("TEST", at: "2024-06-01").payload.bytes

    private static func header(_ text: String) -> @Sendable () -> [UInt8] {
        { V2Text(header: text, payload: payload).body() }
    }

    private static func alg(_ alg: String?) -> @Sendable () -> [UInt8] { header(V2Text.header(alg: alg)) }

    private static func x5c(_ x5c: String) -> @Sendable () -> [UInt8] { header(V2Text.header(x5c: x5c)) }

    /// The standard certificates, with the text of one changed.
    private static func x5c(_ place: Int, _ change: (String) -> String) -> @Sendable () -> [UInt8] {
        var certificates = TestCertificates.standard.x5c
        certificates[place] = change(certificates[place])
        return x5c(V2Text.list(certificates))
    }

    private static func signature(_ change: @escaping @Sendable ([UInt8]) -> [UInt8]) -> @Sendable () -> [UInt8] {
        {
            let text = V2Text(header: V2Text.header(), payload: payload)
            return text.body(signature: change(Array(text.signature.rawRepresentation)))
        }
    }

    /// A valid signed text, split at the dots and joined differently.
    private static func segments(_ change: @escaping @Sendable ([[UInt8]]) -> [[UInt8]]) -> @Sendable () -> [UInt8] {
        {
            let good = JWSSigner.standard.sign(payload)
            let parts = good.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
            return envelope(Array(change(parts).joined(separator: ".".utf8)))
        }
    }

    static let algorithms: [WrongText] = [
        WrongText("alg none", .algorithm, alg("\"none\"")),
        WrongText("alg none without a signature", .algorithm) {
            V2Text(header: V2Text.header(alg: "\"none\""), payload: payload).body(signature: [])
        },
        WrongText("alg HS256", .algorithm, alg("\"HS256\"")),
        WrongText("alg RS256", .algorithm, alg("\"RS256\"")),
        WrongText("alg ES384", .algorithm, alg("\"ES384\"")),
        WrongText("alg in lower case", .algorithm, alg("\"es256\"")),
        WrongText("alg with a NUL after it", .algorithm, alg(#""ES256\u0000""#)),
        WrongText("alg that is not a string", .algorithm, alg("256")),
        WrongText("alg null", .algorithm, alg("null")),
        WrongText("alg absent", .algorithm, alg(nil)),
    ]

    static let certificates: [WrongText] = [
        WrongText("x5c null", .certificateCount, x5c("null")),
        WrongText("x5c a single string", .certificateCount, x5c("\"\(TestCertificates.standard.x5c[0])\"")),
        WrongText("x5c of numbers", .certificateText, x5c("[1,2,3]")),
        WrongText("x5c of empty strings", .certificate, x5c(#"["","",""]"#)),
        WrongText("padding after a whole certificate", .certificateText, x5c(0) { $0 + "====" }),
        WrongText("padding inside", .certificateText, x5c(0) { $0.prefix(40) + "==" + $0.dropFirst(40) }),
        WrongText("a line break inside", .certificateText, x5c(0) { $0.prefix(64) + #"\n"# + $0.dropFirst(64) }),
        WrongText("a space before", .certificateText, x5c(1) { " " + $0 }),
        WrongText("a space after", .certificateText, x5c(1) { $0 + " " }),
        WrongText("the URL alphabet", .certificateText, x5c(V2Text.list(urlSafe))),
        WrongText("a letter outside both alphabets", .certificateText, x5c(0) { "é" + $0.dropFirst() }),
        WrongText("base64 of something else", .certificate, x5c(0) { _ in "AAAA" }),
        WrongText("half a certificate", .certificate, x5c(0) { String($0.prefix($0.count / 8 * 4)) }),
        WrongText("bytes after a certificate", .certificate) {
            let leaf = Data(TestCertificates.standard.leafDER + [0]).base64EncodedString()
            return x5c(V2Text.list([leaf] + TestCertificates.standard.x5c.dropFirst()))()
        },
    ]

    /// Makes chains until one has something to replace.
    private static var urlSafe: [String] {
        let certificates = TestCertificates.standard.x5c.map {
            $0.replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
        }
        precondition(certificates[0].contains { "-_".contains($0) })
        return certificates
    }

    static let signatures: [WrongText] = [
        WrongText("signature in DER", .signatureForm) {
            let text = V2Text(header: V2Text.header(), payload: payload)
            return text.body(signature: Array(text.signature.derRepresentation))
        },
        WrongText("signature one byte short", .signatureForm, signature { Array($0.dropLast()) }),
        WrongText("signature one byte long", .signatureForm, signature { $0 + [0] }),
        WrongText("no signature", .signatureForm, signature { _ in [] }),
        WrongText("signature of zeros", .signature, signature { $0.map { _ in 0 } }),
        WrongText("halves of the signature swapped", .signature, signature { Array($0[32...] + $0[..<32]) }),
        WrongText("signature of another key", .signature) {
            var text = V2Text(header: V2Text.header(), payload: payload)
            text.key = TestKeys.p256("another")
            return text.body()
        },
        WrongText("bytes after the signature", .signatureForm, segments { [$0[0], $0[1], $0[2] + "AAAA".utf8] }),
    ]

    static let shapes: [WrongText] = [
        WrongText("no dots", .notThreeSegments, segments { [Array($0.joined())] }),
        WrongText("two segments", .notThreeSegments, segments { Array($0.dropLast()) }),
        WrongText("four segments", .notThreeSegments, segments { $0 + [$0[2]] }),
        WrongText("a dot after", .notThreeSegments, segments { $0 + [[]] }),
        WrongText("a dot before", .notThreeSegments, segments { [[]] + $0 }),
        WrongText("empty", .notThreeSegments) { envelope([]) },
        WrongText("padding after the header", .header, segments { [$0[0] + "=".utf8, $0[1], $0[2]] }),
        WrongText("padding after the payload", .notBase64, segments { [$0[0], $0[1] + "==".utf8, $0[2]] }),
        WrongText("padding after the signature", .notBase64, segments { [$0[0], $0[1], $0[2] + "==".utf8] }),
        WrongText("a space after the signature", .notBase64, segments { [$0[0], $0[1], $0[2] + " ".utf8] }),
        WrongText("a line break after the signature", .notBase64, segments { [$0[0], $0[1], $0[2] + #"\n"#.utf8] }),
        WrongText("a line break in the payload", .notBase64, segments { [$0[0], #"\n"#.utf8 + $0[1], $0[2]] }),
        WrongText("a line break in the header", .header, segments { [#"\n"#.utf8 + $0[0], $0[1], $0[2]] }),
        WrongText("a NUL in the payload", .notBase64, segments { [$0[0], $0[1] + #"\u0000"#.utf8, $0[2]] }),
        WrongText("the standard alphabet in the payload", .notBase64) { standardAlphabet(inPayload: true) },
        WrongText("the standard alphabet in the header", .header) { standardAlphabet(inPayload: false) },
    ]

    /// The signature covers these segments, so that the alphabet is the only fault.
    private static func standardAlphabet(inPayload: Bool) -> [UInt8] {
        // "???" is "Pz8_" in the URL alphabet and "Pz8/" in the standard alphabet.
        func standard(_ bytes: [UInt8]) -> [UInt8] {
            var text = Array(Data(bytes).base64EncodedData())
            precondition(text.contains(UInt8(ascii: "/")) || text.contains(UInt8(ascii: "+")))
            while text.last == UInt8(ascii: "=") { text.removeLast() }
            return text
        }
        let header = Array(V2Text.header(more: #","a":"???????""#).utf8)
        let payload = V2Body("TEST", at: "2024-06-01").payload.with(["a": "????????"]).bytes
        let text =
            (inPayload ? base64URL(header) : standard(header)) + [UInt8(ascii: ".")]
            + (inPayload ? standard(payload) : base64URL(payload))
        do {
            let signature = try TestCertificates.standard.leafKey.signature(for: text).rawRepresentation
            return envelope(text + [UInt8(ascii: ".")] + base64URL(Array(signature)))
        } catch {
            preconditionFailure("a test text cannot be signed: \(error)")
        }
    }

    static let contents: [WrongText] = [
        WrongText("header that is not JSON", .header, header("ES256")),
        WrongText("header that is not an object", .header, header("[]")),
        WrongText("empty header", .header, header("")),
        WrongText("header with something after it", .header, header(V2Text.header() + "{}")),
        WrongText("header of one MiB", .headerTooLong) {
            let more = #","a":""# + String(repeating: "a", count: 1 << 20) + "\""
            return V2Text(header: V2Text.header(more: more), payload: payload).body()
        },
        WrongText(
            "header with a critical member", .criticalHeader, header(V2Text.header(more: #","crit":["a"],"a":1"#))),
        WrongText("payload that is not JSON", .payloadNotJSON) { signed("notificationType=TEST") },
        WrongText("truncated payload", .payloadNotJSON) { signed(#"{"notificationType":"TEST""#) },
        WrongText("payload that is a list", .payloadNotAnObject) { signed(#"[{"notificationType":"TEST"}]"#) },
        WrongText("payload that is null", .payloadNotAnObject) { signed("null") },
        WrongText("payload that is a string", .payloadNotAnObject) { signed("\"TEST\"") },
    ]

    private static func signed(_ payload: String) -> [UInt8] {
        envelope(JWSSigner.standard.sign(Array(payload.utf8)))
    }

    static let all = algorithms + certificates + signatures + shapes + contents
}

@Suite("Syntax of signed notifications")
struct V2EnvelopeTests {
    private let good = V2Body("TEST", at: "2024-06-01").signed()

    @Test("a signed text with one fault is rejected with that fault", arguments: WrongText.all)
    func wrong(text: WrongText) async {
        #expect(await V2Receiver().refusal(text.body) == text.refusal)
    }

    @Test("an empty payload is rejected as not JSON")
    func emptyPayload() async {
        #expect(
            await V2Receiver().refusal(envelope(JWSSigner.standard.sign([])))
                == .undecodable(.malformed(.payloadNotJSON, .notification)))
    }

    @Test("a header with a kid, as until March 2022, or with other members is accepted")
    func kid() async {
        for more in [#","kid":"AbCdEfGhIj""#, #","typ":"JWT""#, #","kid":null,"a":{"b":[1]}"#] {
            let body = V2Text(header: V2Text.header(more: more), payload: WrongText.payload).body()

            #expect(await V2Receiver().refusal(body) == nil, "\(more)")
        }
    }

    @Test("a header with two algorithms is rejected if the signature is invalid")
    func twoAlgorithms() async {
        for header in [
            V2Text.header(more: #","alg":"none""#), V2Text.header(alg: "\"none\"", more: #","alg":"ES256""#),
        ] {
            let text = V2Text(header: header, payload: WrongText.payload)

            // Either reading is safe if the signature is checked.
            #expect(await V2Receiver().refusal(text.body(signature: [UInt8](repeating: 1, count: 64))) != nil)
        }
    }

    @Test("other members of the body and escapes in its strings change nothing")
    func body() async {
        let text = String(decoding: good, as: UTF8.self)
        let escaped = text.replacingOccurrences(of: "ey", with: #"\u0065y"#)
        let more = text.dropLast() + #","notification_type":"CANCEL","a":[1]}"#

        #expect(await V2Receiver().refusal(Array(escaped.utf8)) == nil)
        #expect(await V2Receiver().refusal(Array(more.utf8)) == nil)
    }

    @Test("a body with bytes after its object is rejected")
    func trailing() async {
        guard case .undecodable(.notJSON) = await V2Receiver().refusal(good + Array("{}".utf8)) else {
            Issue.record("expected notJSON")
            return
        }
    }

    @Test(
        "a signed payload that is not a string is rejected as not a notification",
        arguments: ["null", "1", "{}", "[]", "true"])
    func noText(value: String) async {
        #expect(
            await V2Receiver().refusal(Array("{\"signedPayload\":\(value)}".utf8)) == .undecodable(.notANotification))
    }
}
