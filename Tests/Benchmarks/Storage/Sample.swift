import AppStore
import Crypto
import Encoding
import Foundation
import Simulation
import Subscriptions

/// An event to append to the log.
struct MeasuredEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    /// The body as sent: verifiable, with its secret.
    let arrived: [UInt8]
    let chain: SigningChain?
    let receivedAt: Instant

    var bodyBytes: Int { evidence.slices.reduce(0) { $0 + $1.count } }

    /// The same event, to be stored with nothing decoded in its body.
    var plain: MeasuredEvent {
        MeasuredEvent(
            stream: stream, event: event, evidence: Evidence(evidence.bytes), bodyDigest: bodyDigest, arrived: arrived,
            chain: chain, receivedAt: receivedAt)
    }
}

/// A kind of body to measure.
enum Sample: String, CaseIterable {
    case signed = "version 2, as simulated"
    case longerHeaders = "version 2, headers as long as Apple's"
    case receiptTwice = "version 1, about six transactions and two copies of a receipt of 8 KB"
    case receiptOnce = "version 1, about six transactions and one receipt of 16 KB"

    private static let bundleId = "com.example.app"
    private static let secret = "0123456789abcdef0123456789abcdef"

    func events(_ count: Int) async throws -> [MeasuredEvent] {
        var app = SimulatedApp(
            bundleId: Self.bundleId, appAppleId: 1_234_567_890, environment: .production, sharedSecret: Self.secret)
        if self == .receiptTwice { app.receiptCharacters = 8_000 }
        var settings = Simulation.Settings(app: app)
        settings.subscriptions = isSigned ? count : count * 8
        settings.format = isSigned ? .v2 : .v1
        guard let simulation = Simulation(settings) else { throw Unusable() }
        let verifier = try verifier()
        var events: [MeasuredEvent] = []
        for delivery in simulation.deliveries where events.count < count {
            let body = body(delivery.body())
            guard isMeasured(body) else { continue }
            let verified = try await verifier.verify(body, receivedAt: delivery.receivedAt)
            let evidence = self == .longerHeaders ? try LongerHeaders.evidence(body) : verified.evidence
            events.append(
                MeasuredEvent(
                    stream: verified.stream, event: verified.event, evidence: evidence,
                    bodyDigest: Array(SHA256.hash(data: evidence.bytes)), arrived: body, chain: verified.chain,
                    receivedAt: delivery.receivedAt))
        }
        return events
    }

    func verifier() throws -> NotificationVerifier {
        guard let roots = RootCertificates(file: TestCertificates.standard.rootDER) else { throw Unusable() }
        return NotificationVerifier(
            apps: Apps([App(bundleId: Self.bundleId, appAppleId: 1_234_567_890, sharedSecrets: [Self.secret])]),
            signatures: SignatureVerifier(roots: roots))
    }

    private var isSigned: Bool { self == .signed || self == .longerHeaders }

    /// Selects signed bodies with a transaction and renewal info, which are by far the most frequent, and unsigned bodies
    /// of 22 KB.
    private func isMeasured(_ body: [UInt8]) -> Bool {
        isSigned ? body.count > 13_000 : (21_500...22_500).contains(body.count)
    }

    /// Adds the receipt at the top level, where Apple repeated it until 2021.
    private func body(_ body: [UInt8]) -> [UInt8] {
        guard self == .receiptTwice else { return body }
        let text = String(decoding: body, as: UTF8.self)
        let parts = text.split(separator: "\"latest_receipt\":\"", maxSplits: 1)
        guard parts.count == 2, let receipt = parts[1].split(separator: "\"").first else { return body }
        return Array("{\"latest_receipt\":\"\(receipt)\",\(text.dropFirst())".utf8)
    }
}
