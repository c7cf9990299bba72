import Crypto
import Encoding
import EventLog
import Logging
import Postgres
import Subscriptions
import TestSupport

/// An event from a small set, so that most events of a run are repeats of some kind.
struct GeneratedEvent {
    let source: EventSource
    let subscriptions: Set<String>
    let body: [UInt8]
    let key: [UInt8]

    init(using random: inout SeededGenerator) {
        let source: EventSource =
            random.chance(60)
            ? .appleV1
            : random.chance(60)
                ? random.chance(25) ? .appleHistory : .appleV2 : random.chance(50) ? .appleReceipt : .backend
        let content = Int.random(in: 0..<5, using: &random)
        // The subscriptions depend on the content, as in a body.
        let pool = [["1"], ["2"], ["1", "2"], ["2", "3"], []]
        let subscriptions = Set(pool[content])
        let variant = random.chance(80) ? 0 : 1
        let body = Array("\(source.rawValue) \(content) \(variant)".utf8)
        let digest = Array(SHA256.hash(data: body))
        self.source = source
        self.subscriptions = subscriptions
        self.body = body
        key =
            switch source {
            case .appleV1: digest
            // Different bodies may have the same id.
            case .appleV2, .appleHistory: Array(SHA256.hash(data: Array("id \(content)".utf8)).prefix(16))
            case .appleReceipt, .appleDevice, .appleAPI, .googleRTDN, .googleAPI, .googleDevice, .googleVoided,
                .backend, .operator:
                Array(SHA256.hash(data: body + [0]))
            }
    }

    func at(_ receivedAt: Instant) -> Proven { Proven(self, receivedAt) }

    /// A verified event; this test does not verify it.
    struct Proven: ProvenEvent {
        let stream = StreamKey(app: V1Body.app, environment: .production)
        let event: Event
        let evidence: Evidence
        let bodyDigest: [UInt8]
        let chain: SigningChain? = nil

        fileprivate init(_ generated: GeneratedEvent, _ receivedAt: Instant) {
            evidence = Evidence(generated.body)
            bodyDigest = Array(SHA256.hash(data: generated.body))
            let key = DedupeKey(bytes: generated.key)
            if generated.source == .backend {
                event = LinkStatement(
                    backendCustomerId: "customer", links: generated.subscriptions.map { CustomerKey(.subscription, $0) }
                ).event(environment: .production, app: V1Body.app, receivedAt: receivedAt, dedupeKey: key)
            } else {
                event = Event(
                    source: generated.source, environment: .production, app: V1Body.app, type: nil, subtype: nil,
                    kind: .other, dedupeKey: key, occurredAt: nil,
                    transactions: generated.subscriptions.map {
                        Transaction(transactionId: $0, originalTransactionId: $0)
                    },
                    renewals: [], defects: [])
            }
        }
    }
}

/// Appends entries in batches of a known size.
struct BatchedLog {
    let pool: PostgresPool
    let logger: Logger

    /// Appends entries in order, each in a separate batch or all in one, and returns their positions.
    func append(_ entries: [PreparedEvent], inOneBatch: Bool = false) async throws -> [Appended] {
        var places: [Appended] = []
        for batch in inOneBatch ? [entries] : entries.map({ [$0] }) where !batch.isEmpty {
            let appender = Appender(pool: pool, logger: logger)
            var appends: [Task<Appended, any Error>] = []
            for (index, entry) in batch.enumerated() {
                appends.append(Task { try await appender.append(entry) })
                _ = try await eventually("the event is queued") { await appender.queuedEvents > index ? true : nil }
            }
            let running = Task { await appender.run() }
            for append in appends { places.append(try await append.value) }
            await appender.stop()
            await running.value
        }
        return places
    }
}
