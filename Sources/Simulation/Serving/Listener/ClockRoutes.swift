import Encoding
import HTTPTypes
import Hummingbird

/// Routes that read and set the simulated clock of the stores of one run.
struct ClockRoutes: Sendable {
    let store: SimulatedStore?
    let play: SimulatedPlay?

    func add(to router: Router<StoreContext>) {
        router.get("/clock") { _, _ in clock() }
        router.put("/clock") { request, _ in try await setClock(request) }
    }

    /// `{"now":"2026-06-30T23:59:59.000Z"}`
    private func clock() -> Response {
        .json { $0.member("now", store?.now ?? play?.now) }
    }

    private func setClock(_ request: Request) async throws -> Response {
        let body = Array(buffer: try await request.body.collect(upTo: 1024))
        guard let text = try? JSONDocument(body).root.string("now"), let instant = Instant(iso8601: text) else {
            throw HTTPError(.badRequest, message: "now must be an ISO 8601 instant such as 2026-01-31T08:11:46Z")
        }
        await store?.setClock(instant)
        await play?.setClock(instant)
        return clock()
    }
}
