import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Readers
import Subscriptions

// `GET /customers/{customerId}/entitlements`: as JSON, or signed; and nothing if the client has the answer already.
extension CustomerRoutes {
    func entitlements(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let query = RequestQuery(request)
        let reference = try Self.reference(request, context)
        try AppUser.current?.check(app: reference.app)
        try AppUser.current?.check(customerId: reference.id)
        if try SignedEntitlements.areRequested(request, query) {
            return try await signedEntitlements(request, query, reference)
        }
        let at = try query.instant("at") ?? now()
        let knownAt = try query.instant("knownAt")
        let question = CustomerReader.Question(reference, at: at)
        let answer =
            if let knownAt {
                try await customers.entitlements(question, knownAt: knownAt)
            } else {
                try await find(question)
            }
        let only = try Self.only(answer, reference.environment)
        return EntityTag(of: only.content(of: reference, at: at)).response(to: request) {
            JSONResponse.json(.ok) { writer in
                reference.write(only.identity, to: &writer)
                writer.member("asOf", at)
                writer.member("knownAt", knownAt)
                writer.key("entitlements")
                writer.array(only.entitlements) { $1.write(at: at, to: &$0) }
            }
        }
    }

    /// Finds what a customer is entitled to. A user of an app is the backend's customer; and the account of purchases that were
    /// not handed in, if the backend has no customer with the id.
    private func find(
        _ question: CustomerReader.Question
    ) async throws(ReadError) -> CustomerReader.Answer<CustomerReader.Found> {
        guard AppUser.current != nil else { return try await customers.entitlements(question) }
        var question = question
        question.customer.kind = .link
        let answer = try await customers.entitlements(question)
        guard case .unknown = answer else { return answer }
        question.customer.kind = .account
        return try await customers.entitlements(question)
    }

    private func signedEntitlements(
        _ request: Request, _ query: RequestQuery, _ reference: CustomerReader.Reference
    ) async throws -> Response {
        let app = try query.app()
        for name in ["at", "knownAt"] where try query.text(name) != nil {
            throw RequestQuery.Malformed(problem: "a signed answer is about now: remove \(name)", field: name)
        }
        guard let key else {
            throw Problem(.notImplemented, "signed answers disabled: this server has no key: set SUBLEDGER_HEAD_KEY")
        }
        let issued = now()
        // Read first: the answer contains at least what is folded up to here.
        let position = try await log.foldedPosition(of: StreamKey(app: app, environment: reference.environment))
        let answer = try await find(CustomerReader.Question(reference, at: issued))
        let only = try Self.only(answer, reference.environment)
        let signed = SignedEntitlements(
            customerId: reference.id, app: app, environment: reference.environment, knownAs: only.identity.knownAs,
            entitlements: only.entitlements, position: position, issued: issued)
        let tag = EntityTag(of: only.content(of: reference, at: issued) + Array(signed.tagText(key).utf8))
        return try tag.response(to: request) {
            Response(
                status: .ok, headers: [.contentType: SignedEntitlements.mediaType],
                body: .init(byteBuffer: ByteBuffer(string: try signed.text(key))))
        }
    }
}

extension CustomerReader.Found {
    /// What changes whenever the answer does, apart from the time of the answer: with the positions of the events and with
    /// what is active at the instant.
    fileprivate func content(of reference: CustomerReader.Reference, at instant: Instant) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            reference.write(identity, to: &writer)
            writer.key("entitlements")
            writer.array(entitlements) { $1.write(at: instant, to: &$0) }
        }
        return writer.bytes
    }
}
