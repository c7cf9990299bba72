import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// `PUT` and `DELETE /subscriptions/{originalTransactionId}/seats/{customerId}`: seats that a backend gives to its customers,
/// and takes back.
struct SeatRoutes: Sendable {
    let grants: GrantService?
    let now: @Sendable () -> Instant

    func add(to routes: PrivateRoutes) {
        routes.operate.put("/subscriptions/:originalTransactionId/seats/:customerId") { request, context in
            let (stream, id, customer) = try Self.seat(request, context)
            return try Self.response(
                try await grants.accepting(stream).claimSeat(of: id, for: customer, in: stream, receivedAt: now()))
        }
        routes.operate.delete("/subscriptions/:originalTransactionId/seats/:customerId") { request, context in
            let (stream, id, customer) = try Self.seat(request, context)
            return try Self.response(
                try await grants.accepting(stream).releaseSeat(of: id, for: customer, in: stream, receivedAt: now()))
        }
    }

    private static func seat(
        _ request: Request, _ context: BasicRequestContext
    ) throws -> (stream: StreamKey, id: String, customer: String) {
        let stream = try RequestQuery(request).stream()
        let id = try PathParameter.text("originalTransactionId", context)
        let customer = try PathParameter.text("customerId", context)
        for (text, field) in [(id, "originalTransactionId"), (customer, "customerId")] {
            do throws(LinkStatement.Malformed) {
                try LinkStatement.check(text, field)
            } catch {
                throw RequestQuery.Malformed(problem: error.description, field: error.field)
            }
        }
        return (stream, id, customer)
    }

    private static func response(_ outcome: GrantService.SeatOutcome) throws -> Response {
        switch outcome {
        case .stated(let position, let isNew):
            return JSONResponse.json(.ok) { writer in
                writer.member("position", position)
                writer.member("duplicate", !isNew)
            }
        case .unknownSubscription:
            throw Problem(.notFound, "no subscription with this id", field: "originalTransactionId")
        case .unknownClaim: throw Problem(.notFound, "the customer has claimed no seat", field: "customerId")
        case .noSeats:
            throw Problem(.conflict, "the subscription has no seats", field: "originalTransactionId")
        case .invitedByStore:
            throw Problem(
                .conflict, "the App Store invites the members of this subscription: each has a purchase",
                field: "originalTransactionId")
        case .noSeatFree(let seats, let claims):
            throw Problem(.conflict, "no seat is free: \(claims) of \(seats) are claimed", field: "customerId")
        }
    }
}
