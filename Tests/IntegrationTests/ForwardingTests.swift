import AppStore
import EventLog
import Foundation
import Outbound
import Postgres
import Subscriptions
import TestSupport
import Testing

@testable import HTTPServer
@testable import Server

@Suite("Notifications are passed on as the store sent them")
struct ForwardingTests {
    /// The least number of bodies; SUBLEDGER_TEST_BODIES sets a larger one.
    private static let bodies = TestScale.number("SUBLEDGER_TEST_BODIES", 30)

    /// Every story of the simulator, in both versions, shuffled and repeated.
    @Test("every body arrives byte for byte as it is stored, and in order of positions for each subscription")
    func bodies() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.script("delete from subledger.stream")
            let stream = StreamKey(app: V1Body.app, environment: .sandbox)
            let forward = Forward(
                stream: stream, url: "http://127.0.0.1:\(bundle.receiver.port)/old", sources: nil)
            try await bundle.delivering(forwards: [forward]) { _ in
                _ = try await eventually(within: .seconds(60), "the endpoint is added") {
                    try await bundle.status(forward.id)
                }
                try await SimulatedLog.with(database: bundle.database) { log in
                    var (subscriptions, deliveries) = (4, try await SimulatedLog.deliveries(subscriptions: 4))
                    while deliveries.count < Self.bodies * 6 / 5 {
                        subscriptions = subscriptions * Self.bodies * 6 / 5 / deliveries.count + 1
                        deliveries = try await SimulatedLog.deliveries(subscriptions: subscriptions)
                    }
                    try await log.append(deliveries)
                }
                try await bundle.delivered(forward.id, within: .seconds(3000))
            }

            let stored = try await bundle.values(
                """
                select encode(subledger.event_body(stream_id, position), 'base64')
                from subledger.event
                order by position
                """
            ).map { Data(base64Encoded: $0.replacing("\n", with: "")) ?? Data() }
            let lines = try await bundle.values(
                """
                select coalesce(facts #>> '{transactions,0,originalTransactionId}',
                  facts #>> '{renewals,0,originalTransactionId}', position::text)
                from subledger.event
                order by position
                """)
            #expect(stored.count >= Self.bodies)
            let byPosition = Dictionary(
                bundle.receiver.messages.map { (Self.position(of: $0), $0) }, uniquingKeysWith: { first, _ in first })
            #expect(byPosition.count == stored.count)
            for (index, body) in stored.enumerated() {
                #expect(byPosition[index + 1].map { Data($0.body) } == body, "position \(index + 1)")
            }
            var last: [String: Int] = [:]
            for position in bundle.receiver.messages.map(Self.position) {
                let line = lines[position - 1]
                #expect(last[line] ?? 0 < position)
                last[line] = position
            }
            let message = try #require(bundle.receiver.messages.first)
            #expect(message.path == "/old")
            #expect(message.headers["content-type"] == "application/json")
            #expect(message.headers["webhook-signature"] == nil)

            let count = bundle.receiver.messages.count
            try await bundle.delivering(forwards: [forward]) { _ in
                #expect(try await bundle.store.replay(forward.id, after: 0))
                _ = try await eventually(within: .seconds(60), "everything arrives again") {
                    bundle.receiver.messages.count >= 2 * count ? true : nil
                }
            }
        }
    }

    private static func position(of message: ScriptedReceiver.Message) -> Int {
        let parts = message.id.split(separator: "_")
        return parts.count > 2 ? Int(parts[2]) ?? 0 : 0
    }

    @Test("only the sources that are asked for are passed on, and nothing once the apps file does not name the URL")
    func sources() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.script("delete from subledger.stream")
            let stream = StreamKey(app: V1Body.app, environment: .sandbox)
            let url = "http://127.0.0.1:\(bundle.receiver.port)/old"
            let forward = Forward(stream: stream, url: url, sources: ["apple-v1"])
            try await bundle.delivering(forwards: [forward]) { _ in
                _ = try await eventually(within: .seconds(60), "the endpoint is added") {
                    try await bundle.status(forward.id)
                }
                try await SimulatedLog.with(database: bundle.database) { log in
                    try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
                }
                try await bundle.delivered(forward.id)
            }
            let count = bundle.receiver.messages.count
            let stored = try await bundle.values(
                "select count(*)::text from subledger.event where source = 'apple-v1'")
            #expect(stored == [String(count)])

            try await bundle.delivering { _ in
                _ = try await eventually(within: .seconds(60), "the endpoint is disabled") {
                    try await bundle.status(forward.id)?.endpoint.state.isActive == false ? true : nil
                }
            }
            #expect(try await bundle.store.replay(forward.id, after: 0))
            try await bundle.delivering(forwards: [forward]) { _ in
                try await bundle.delivered(forward.id)
            }
            #expect(bundle.receiver.messages.count == 2 * count)
        }
    }

    @Test(
        "a notification whose body is lost is given up aloud and sent once the body is back; an erased one is skipped")
    func lost() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.script("delete from subledger.stream")
            let forward = Forward(
                stream: StreamKey(app: V1Body.app, environment: .sandbox),
                url: "http://127.0.0.1:\(bundle.receiver.port)/old", sources: nil)
            try await SimulatedLog.with(database: bundle.database) { log in
                try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
            }
            let all = try await bundle.values("select position::text from subledger.event").count
            try await bundle.script(
                """
                do $$
                declare
                  partition text;
                begin
                  for partition in select name from subledger.body_partitions() loop
                    execute format('alter table subledger.%I disable trigger event_body_append_only', partition);
                  end loop;
                end
                $$;
                alter table subledger.event_body disable trigger event_body_append_only;
                create table lost as select * from subledger.event_body where position = 2;
                delete from subledger.event_body where position = 2;
                update subledger.event_body set body = '' where position = 3;
                """)
            let metrics = MetricsRegistry()
            try await bundle.delivering(forwards: [forward], metrics: metrics) { delivery in
                _ = try await eventually(within: .seconds(60), "the endpoint is added") {
                    try await bundle.status(forward.id)
                }
                #expect(try await bundle.store.replay(forward.id, after: 0))
                try await bundle.delivered(forward.id)
                let figures = try await eventually(within: .seconds(60), "the figures count it") {
                    delivery.figures.lost == 1 ? delivery.figures : nil
                }
                let sent = Set(bundle.receiver.messages.map(Self.position))
                let attempts = try await bundle.attempts(forward.id).filter { $0.result == "body_lost" }
                let counted = metrics.values(of: "subledger_endpoint_attempts_total").filter {
                    $0.labels.contains("body_lost") && $0.value > 0
                }

                #expect(sent == Set(1...all).subtracting([2, 3]))
                #expect(attempts.map(\.number) == [2] && counted.map(\.value) == [1])
                #expect(try await bundle.status(forward.id)?.exhausted == 1)
                #expect(figures.lostExample == "\(forward.id) at 2" && figures.failing == 0)
                #expect(
                    await HealthCheck.endpoints(delivery).check()
                        == .degraded(
                            "notifications not passed on because the log has lost their bodies: 1, the last one to "
                                + "\(forward.id) at 2"))
                #expect(bundle.logs.text.contains("error notification not passed on: its body is lost"))

                try await bundle.script("insert into subledger.event_body select * from lost")
                let due = try await bundle.store.replayExhausted(forward.id, since: bundle.clock.now)
                #expect(due == 1)
                _ = try await eventually(within: .seconds(60), "it is sent") {
                    bundle.receiver.messages.contains { Self.position(of: $0) == 2 } ? true : nil
                }
                _ = try await eventually(within: .seconds(60), "the condition is over") {
                    delivery.figures.lost == 0 ? true : nil
                }
                #expect(await HealthCheck.endpoints(delivery).check() == .ok)
            }
        }
    }

    @Test("notifications of archived months are passed on from their files, byte for byte")
    func archived() async throws {
        let folder = TestFolder.path("forwarded-archive")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.script("delete from subledger.stream")
            let forward = Forward(
                stream: StreamKey(app: V1Body.app, environment: .sandbox),
                url: "http://127.0.0.1:\(bundle.receiver.port)/old", sources: nil)
            try await bundle.delivering(forwards: [forward]) { _ in
                _ = try await eventually(within: .seconds(60), "the endpoint is added") {
                    try await bundle.status(forward.id)
                }
                try await SimulatedLog.with(database: bundle.database) { log in
                    try await log.append(try await SimulatedLog.deliveries(subscriptions: 2))
                    await log.projector.foldAllStreams()
                }
                try await bundle.delivered(forward.id)
            }
            let sent = Dictionary(
                bundle.receiver.messages.map { (Self.position(of: $0), $0.body) },
                uniquingKeysWith: { first, _ in first })

            let (lock, connection) = (
                try await TestCluster.connect(bundle.database), try await TestCluster.connect(bundle.database)
            )
            let archiver = BodyArchiver(lock: lock, connection: connection, folder: folder, now: { ArchiveBundle.now })
            try await archiver.archive(before: ArchiveBundle.last)
            await lock.close()
            await connection.close()
            let left = try await bundle.values("select position::text from subledger.event_body")
            #expect(left.count < sent.count)

            let count = bundle.receiver.messages.count
            try await bundle.delivering(forwards: [forward], archive: BodyArchive(folder: folder)) { _ in
                #expect(try await bundle.store.replay(forward.id, after: 0))
                _ = try await eventually(within: .seconds(60), "everything arrives again") {
                    bundle.receiver.messages.count >= count + sent.count ? true : nil
                }
                try await bundle.delivered(forward.id)
            }
            let again = bundle.receiver.messages.dropFirst(count)
            #expect(Set(again.map(Self.position)) == Set(sent.keys))
            for message in again {
                let position = Self.position(of: message)
                #expect(message.body == sent[position], "position \(position)")
            }
            #expect(try await bundle.attempts(forward.id).allSatisfy { $0.result != "body_lost" })
        }
    }

    @Test("forward in the apps file is checked, and no error quotes the URL")
    func appsFile() throws {
        func forwards(_ member: String, allowsPrivate: Bool = false) throws -> [Forward] {
            let path = TestFolder.path("forward-\(UUID().uuidString).json")
            try Data(#"[{"bundleId":"a","forward":\#(member)}]"#.utf8).write(to: URL(fileURLWithPath: path))
            return try ForwardEntries.read(path, allowsPrivate: allowsPrivate)
        }

        let usual = try forwards(#"[{"url":"https://a.example/x"}]"#)
        #expect(usual.map(\.stream.environment) == [.production, .sandbox])
        #expect(Set(usual.map(\.id)).count == 2)
        #expect(usual.allSatisfy { $0.id.hasPrefix("fwd_") && $0.id.count == 20 && $0.sources == nil })
        let one = try forwards(
            #"[{"url":"https://a.example/x","environments":["sandbox"],"sources":["apple-v2","apple-v1"]}]"#)
        #expect(one.map(\.sources) == [["apple-v1", "apple-v2"]])
        #expect(try forwards(#"[{"url":"http://127.0.0.1/x"}]"#, allowsPrivate: true).count == 2)
        for (member, problem) in [
            (#"{"url":"https://a.example"}"#, "forward: expected"), ("[{}]", "forward.url is missing"),
            (#"[{"url":"http://secret.example"}]"#, "must begin with https://"),
            (#"[{"url":"https://10.0.0.1/secret"}]"#, "not public"),
            (#"[{"url":"https://secret.example","sources":["backend"]}]"#, "forward.sources: expected"),
            (#"[{"url":"https://secret.example","environments":[]}]"#, "forward.environments: expected"),
            (#"[{"url":"https://secret.example","kinds":[]}]"#, #"unknown setting "forward.kinds""#),
            (#"[{"url":"https://secret.example"},{"url":"https://secret.example"}]"#, "the same URL twice"),
        ] {
            let error = #expect(throws: SettingError.self) { try forwards(member) }
            #expect(error?.description.contains(problem) == true, "\(member)")
            #expect(error?.description.contains("secret") == false, "\(member)")
        }
    }
}
