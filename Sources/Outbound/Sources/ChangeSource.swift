import Encoding
import EventLog
import Readers
import Subscriptions

/// The change feed, as messages for an endpoint: CloudEvents in JSON.
struct ChangeSource: MessageSource {
    let reader: ChangeReader
    let signal: ChangeSignal
    let endpoint: Endpoint
    let streamId: Int32
    let now: @Sendable () -> Instant

    func page(after number: Int64, limit: Int) async throws(ReadError) -> MessagePage {
        guard let head = try await reader.head(of: endpoint.stream), head.number > number,
            let page = try await reader.changes(
                of: endpoint.stream, head, after: ReadPlace(number: number), limit: limit, now: now())
        else { return MessagePage(messages: [], through: number) }
        let kinds = endpoint.kinds.map(Set.init)
        let concerning = page.changes.filter { kinds?.contains($0.change.kind.rawValue) ?? true }
        return MessagePage(messages: concerning.map { message($0, page.asOf) }, through: page.through.number)
    }

    func message(_ number: Int64) async throws(ReadError) -> SourceMessage? {
        guard let head = try await reader.head(of: endpoint.stream),
            let page = try await reader.changes(
                of: endpoint.stream, head, after: ReadPlace(number: number - 1), limit: 1, now: now())
        else { return nil }
        return page.changes.first { $0.place.number == number }.map { message($0, page.asOf) }
    }

    private func message(_ published: ChangeReader.PublishedChange, _ asOf: Instant) -> SourceMessage {
        let id = OutboundMessage.id(of: published.place, streamId, endpoint.id)
        let body = OutboundMessage.body(
            id: id, kind: published.change.kind.rawValue, stream: endpoint.stream,
            subject: published.change.originalTransactionId, time: published.change.at
        ) { writer in
            writer.member("asOf", asOf)
            published.writeMembers(at: asOf, to: &writer)
        }
        return SourceMessage(
            number: published.place.number, line: published.change.originalTransactionId, id: id,
            headers: [("content-type", "application/json")], body: body)
    }

    func mark() async -> ChangeSignal.Mark { await signal.mark(of: streamId) }

    func wait(since mark: ChangeSignal.Mark, until deadline: ContinuousClock.Instant) async {
        await signal.wait(for: streamId, since: mark, until: deadline)
        // While the server stops, nothing is heard any more.
        if await signal.hasEnded { try? await Task.sleep(until: deadline) }
    }
}

/// The form of messages about changes.
package enum OutboundMessage {
    /// The id of a change's message: the same for every attempt, and another one for what has the change's number after a
    /// restored backup.
    static func id(of place: ReadPlace, _ streamId: Int32, _ endpoint: String) -> String {
        "chg_\(streamId)_\(place.number)_\(place.check?.prefix(8) ?? "0")_\(endpoint)"
    }

    /// A message with the names of CloudEvents 1.0.2, and `timestamp` as Standard Webhooks asks for.
    ///
    /// - Parameter data: Writes the members of `data`.
    package static func body(
        id: String, kind: String, stream: StreamKey, subject: String?, time: Instant,
        _ data: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        var writer = JSONWriter(bytesExpected: 2048)
        writer.object { writer in
            writer.member("specversion", "1.0")
            writer.member("id", id)
            writer.member("source", "/apps/\(stream.app)/\(stream.environment.rawValue)")
            writer.member("type", "subledger.subscription.\(kind).v1")
            writer.member("subject", subject)
            writer.member("time", time)
            writer.member("timestamp", time)
            writer.member("datacontenttype", "application/json")
            writer.key("data")
            writer.object { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                data(&writer)
            }
        }
        return writer.bytes
    }

    /// A message that an operator sends to see whether an endpoint works.
    package static func test(of endpoint: Endpoint, at now: Instant) -> (id: String, body: [UInt8]) {
        let id = "test_\(now.milliseconds)_\(endpoint.id)"
        let body = body(id: id, kind: "test", stream: endpoint.stream, subject: nil, time: now) { _ in }
        return (id, body)
    }
}
