import Encoding
import EventLog
import Foundation
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("Comparison of version 1 with version 2")
struct CompareSourcesTests {
    private static func compare(
        _ deliveries: [SimulatedLog.Delivery], atOnce: Int = ProjectionAudit.subscriptionsAtOnceMax,
        isFolded: Bool = false
    ) async throws -> (counts: SourceComparison.Counts, differences: [SourceDifference]) {
        var found: (counts: SourceComparison.Counts?, differences: [SourceDifference]) = (nil, [])
        try await SimulatedLog.with { log in
            try await log.append(deliveries)
            if isFolded { await log.projector.foldAllStreams() }
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_reader"))
            let comparison = SourceComparison(connection: connection, subscriptionsAtOnceMax: atOnce)
            found.counts = try await comparison.compare(app: V1Body.app) { found.differences.append($0) }
            #expect(try await comparison.compare(app: "com.example.unknown") { _ in } == nil)
            await connection.close()
        }
        return (try #require(found.counts), found.differences)
    }

    private static func statedAt(_ delivery: SimulatedLog.Delivery) -> Instant {
        delivery.notification.event.occurredAt ?? delivery.receivedAt
    }

    private static func isSigned(_ delivery: SimulatedLog.Delivery) -> Bool {
        delivery.notification.event.source == .appleV2
    }

    /// A signed renewal whose transaction no other signed notification reports: the earliest one.
    private static func renewal(in deliveries: [SimulatedLog.Delivery]) throws -> Event {
        var reports: [String: Set<DedupeKey>] = [:]
        for delivery in deliveries where isSigned(delivery) {
            let event = delivery.notification.event
            for transaction in event.transactions {
                reports[transaction.transactionId, default: []].insert(event.dedupeKey)
            }
        }
        let renewals = deliveries.filter { delivery in
            let event = delivery.notification.event
            return isSigned(delivery) && event.type == "DID_RENEW" && event.transactions.count == 1
                && event.transactions.allSatisfy { reports[$0.transactionId]?.count == 1 }
        }
        let earliest = renewals.min { statedAt($0) < statedAt($1) }
        return try #require(earliest).notification.event
    }

    @Test("a log with both versions has no difference, in one part and in several")
    func same() async throws {
        let deliveries = try await SimulatedLog.deliveries(seed: 2)

        let (counts, differences) = try await Self.compare(deliveries)
        let (inParts, _) = try await Self.compare(deliveries, atOnce: 5, isFolded: true)

        #expect(differences.map(\.json) == [])
        #expect(counts.compared > 20)
        #expect(counts.differing == 0)
        #expect(counts.onlyUnsigned == 0)
        #expect(counts.apart == 0)
        #expect(inParts == counts)
    }

    @Test("without one signed renewal, exactly its subscription differs, with the events of both versions")
    func missing() async throws {
        let deliveries = try await SimulatedLog.deliveries(seed: 2)
        let lost = try Self.renewal(in: deliveries)
        let transaction = try #require(lost.transactions.first)

        let (counts, differences) = try await Self.compare(
            deliveries.filter { $0.notification.event.dedupeKey != lost.dedupeKey })

        #expect(counts.differing == 1)
        let difference = try #require(differences.first)
        #expect(differences.count == 1)
        #expect(difference.originalTransactionId == transaction.originalTransactionId)
        #expect(difference.unsigned.periods.contains { $0.transactionId == transaction.transactionId })
        #expect(!difference.signed.periods.contains { $0.transactionId == transaction.transactionId })
        let json = try #require(
            try JSONSerialization.jsonObject(with: Data(difference.json.utf8)) as? [String: Any])
        let unsigned = try #require(json["unsigned"] as? [String: Any])
        #expect((unsigned["events"] as? [Int])?.isEmpty == false)
        #expect((unsigned["periods"] as? [[String: Any]])?.allSatisfy { $0["position"] is Int } == true)
    }

    /// Signed notifications begin with a renewal that was charged early for a subscription of the first log, and with a
    /// refund of an expired purchase for one of the second.
    @Test("version 2 that begins later, and version 1 that ends earlier, make no difference", arguments: [1, 2])
    func partly(_ seed: UInt64) async throws {
        let deliveries = try await SimulatedLog.deliveries(seed: seed)
        let times = deliveries.map(Self.statedAt).sorted()
        let early = times[times.count / 3]
        let late = times[times.count * 2 / 3]

        let (counts, differences) = try await Self.compare(
            deliveries.filter { Self.isSigned($0) ? Self.statedAt($0) >= early : Self.statedAt($0) <= late })

        #expect(differences.map(\.json) == [])
        #expect(counts.compared > 0)
        #expect(counts.onlyUnsigned > 0)
        #expect(counts.onlySigned > 0)
    }

    @Test("the command prints a summary; its exit status is 0 without a difference, and 65 without events of the app")
    func command() async throws {
        let folder = TestFolder.path("compare")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(app: String) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["compare-sources", "--app", app, "--data-folder", folder, "--log-level", "error"])
        }
        let server = try ServerProcess(dataFolder: folder)
        let apple = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        for number in 1...3 { #expect(try await apple.post(try V1Body(number: number).bytes).status == 200) }

        let same = try run(app: V1Body.app)
        let unknown = try run(app: "com.example.none")
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(same.status == 0, "\(same.error)")
        #expect(
            same.output == """
                same: subscriptions 0, differing 0, never at the same time 0, only in version 1 or receipts 3, only in \
                version 2 0

                """)
        #expect(unknown.status == 65)
        #expect(unknown.error == "subledger: the log has no events of app com.example.none\n")
    }
}
