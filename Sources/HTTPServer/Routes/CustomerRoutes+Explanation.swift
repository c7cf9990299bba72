import Encoding
import Hummingbird
import Readers
import Subscriptions

extension CustomerRoutes {
    /// `GET /customers/{customerId}/explanation`.
    func explanation(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let query = RequestQuery(request)
        let reference = try Self.reference(request, context)
        guard let entitlement = try query.text("entitlement") else {
            throw RequestQuery.Malformed(
                problem: "entitlement must be the name of an entitlement", field: "entitlement")
        }
        let at = try query.instant("at") ?? now()
        let answer = try await customers.explanations(
            CustomerReader.Question(reference, at: at), of: entitlement, knownAt: try query.instant("knownAt"))
        let only = try Self.only(answer, reference.environment)
        return JSONResponse.json(.ok) { writer in
            reference.write(only.identity, to: &writer)
            only.explanations.first?.writeMembers(to: &writer)
        }
    }
}
