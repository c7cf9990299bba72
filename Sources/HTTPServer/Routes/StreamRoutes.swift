import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// `GET /streams` returns the head of every stream, signed if the server has a key; `GET
/// /streams/{app}/{environment}/checkpoint` the last signed checkpoint of a stream, as text.
struct StreamRoutes: Sendable {
    let log: LogReader
    let key: HeadKey?
    let now: @Sendable () -> Instant

    func add(to routes: PrivateRoutes) {
        routes.read.get("/streams") { _, _ in try await list() }
        routes.read.get("/streams/:app/:environment/checkpoint") { _, context in
            try await checkpoint(
                try PathParameter.text("app", context), try PathParameter.text("environment", context))
        }
    }

    private func list() async throws -> Response {
        let heads = try await log.heads()
        let time = now()
        let signed = try heads.map { try key?.sign($0, at: time) }
        return JSONResponse.json(.ok) { writer in
            writer.key("streams")
            writer.array(zip(heads, signed)) { writer, entry in
                let (head, signed) = entry
                writer.object { writer in
                    if let signed { signed.writeMembers(to: &writer) } else { head.writeMembers(to: &writer) }
                }
            }
        }
    }

    private func checkpoint(_ app: String, _ name: String) async throws -> Response {
        let stream = StreamKey(app: app, environment: try RequestQuery.environment(name))
        guard let checkpoint = try await log.checkpoint(of: stream) else {
            throw Problem(.notFound, "no checkpoint of this app in this environment was signed yet")
        }
        return Response(
            status: .ok, headers: [.contentType: "text/plain; charset=utf-8"],
            body: .init(byteBuffer: ByteBuffer(string: checkpoint.note.encoded)))
    }
}
