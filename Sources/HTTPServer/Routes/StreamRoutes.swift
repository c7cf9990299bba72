import Encoding
import EventLog
import Hummingbird

/// `GET /streams` returns the head of every stream, signed if the server has a key.
struct StreamRoutes: Sendable {
    let log: LogReader
    let key: HeadKey?
    let now: @Sendable () -> Instant

    func add(to routes: PrivateRoutes) {
        routes.read.get("/streams") { _, _ in try await list() }
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
}
