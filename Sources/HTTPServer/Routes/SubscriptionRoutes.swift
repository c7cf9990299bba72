import Encoding
import EventLog
import Hummingbird
import Readers
import Subscriptions

/// `GET /subscriptions/{originalTransactionId}` returns the status of a subscription; `/content` below it returns which
/// magazine issues are readable.
struct SubscriptionRoutes: Sendable {
    let subscriptions: SubscriptionReader
    let now: @Sendable () -> Instant

    func add(to routes: PrivateRoutes) {
        routes.read.get("/subscriptions/:originalTransactionId") { request, context in
            try await answer(request, context) { found, _, at, writer in
                found.subscription.writeMembers(at: at, to: &writer)
                if let checks = found.checks {
                    writer.key("check")
                    checks.write(to: &writer)
                }
                writer.member("coveredSince", found.coveredSince)
                writeSeats(of: found, to: &writer)
                if !found.writes.isEmpty {
                    writer.key("writes")
                    writer.array(found.writes) { $1.write(to: &$0) }
                }
                writeDefects(of: found, to: &writer)
            }
        }
        routes.read.get("/subscriptions/:originalTransactionId/content") { request, context in
            try await answer(request, context) { found, query, at, writer in
                let subscription = found.subscription
                let issues = try query.instants("publishedAt")
                writer.member("originalTransactionId", subscription.originalTransactionId)
                writer.member("asOf", at)
                writer.key("issues")
                writer.array(subscription.contentAccess(issues: issues, at: at)) { $1.write(to: &$0) }
            }
        }
    }

    /// Writes the seats as last reported, and who has one by what a backend stated; nothing if there are none.
    private func writeSeats(of found: SubscriptionReader.Found, to writer: inout JSONWriter) {
        guard let number = found.subscription.seats else { return }
        writer.key("seats")
        writer.object { writer in
            writer.member("number", number)
            writer.key("claims")
            writer.array(found.seats.standing) { writer, claim in
                writer.object { writer in
                    writer.member("customerId", claim.customer.id.text)
                    writer.member("claimedAt", claim.claimedAt)
                    writer.member("hasSeat", claim.since != nil)
                    writer.member("position", claim.position)
                }
            }
        }
    }

    /// Writes what cannot be used of the subscription because of other subscriptions, because a product is not configured, or
    /// because there are fewer seats than claims; nothing if there is none.
    private func writeDefects(of found: SubscriptionReader.Found, to writer: inout JSONWriter) {
        let gaps = found.subscription.transactions.filter { $0.gap != nil }
        let waiting = found.seats.waiting.map { claim in
            Defect(
                path: "seats", problem: "is claimed by more customers than there are seats: the newest have none",
                member: "customerId", value: claim.customer.id.text)
        }
        guard !found.sharedAccountTokens.isEmpty || !gaps.isEmpty || !waiting.isEmpty else { return }
        let tokens = found.sharedAccountTokens.map { token in
            Defect(
                path: "appAccountToken", problem: "is shared by too many store accounts, and identifies no customer",
                member: "appAccountToken", value: token)
        }
        let products = gaps.compactMap { row in
            row.gap.map {
                Defect(path: "productId", problem: $0.problem, member: "productId", value: row.transaction.productId)
            }
        }
        var seen: Set<String> = []
        writer.key("defects")
        writer.array((tokens + products + waiting).filter { seen.insert("\($0.problem) \($0.value ?? "")").inserted }) {
            writer, defect in
            writer.object { writer in
                writer.member("path", defect.path)
                writer.member("problem", defect.problem)
                writer.member(defect.member, defect.value)
            }
        }
    }

    private struct Defect {
        let path: String
        let problem: String
        /// The name of the member with the value.
        let member: StaticString
        let value: String?
    }

    /// Finds the subscription that the request refers to and writes the response.
    private func answer(
        _ request: Request, _ context: BasicRequestContext,
        _ write: (SubscriptionReader.Found, RequestQuery, Instant, inout JSONWriter) throws -> Void
    ) async throws -> Response {
        let query = RequestQuery(request)
        let id = try PathParameter.text("originalTransactionId", context)
        let environment = try query.environment()
        let at = try query.instant("at") ?? now()
        let found = try await subscriptions.subscriptions(
            originalTransactionId: id, environment: environment, app: try query.text("app"))
        guard let only = found.first else {
            throw Problem(.notFound, "no subscription with this id in \(environment.rawValue)")
        }
        guard found.count == 1 else {
            let apps = found.map(\.app).joined(separator: ", ")
            throw Problem(.conflict, "several apps have this id: choose one with ?app= (\(apps))", field: "app")
        }
        return try JSONResponse.json(.ok) { writer in
            writer.member("app", only.app)
            writer.member("environment", environment.rawValue)
            try write(only, query, at, &writer)
            writer.member("position", only.position)
        }
    }
}
