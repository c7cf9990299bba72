import Encoding
import EventLog
import Postgres
import Subscriptions

/// Answers concurrent lookups with few queries: while one query runs, further lookups gather for the next one.
actor CustomerLookups {
    private let pool: PostgresPool
    private let layout: DatabaseLayout
    private var waiting: [Waiting] = []
    private var running = 0
    private var begun = 0
    /// The query that the next one waits for; nil if the next one may start.
    private var awaited: Int?

    private typealias Answer = Result<CustomerReader.Answer<CustomerReader.Found>, ReadError>

    private struct Waiting {
        let question: CustomerReader.Question
        let continuation: CheckedContinuation<Answer, Never>
    }

    init(pool: PostgresPool, layout: DatabaseLayout) {
        self.pool = pool
        self.layout = layout
    }

    func find(
        _ question: CustomerReader.Question
    ) async throws(ReadError) -> CustomerReader.Answer<CustomerReader.Found> {
        let answer = await withCheckedContinuation { continuation in
            waiting.append(Waiting(question: question, continuation: continuation))
            startQuery()
        }
        return try answer.get()
    }

    private func startQuery() {
        guard awaited == nil, running < Limits.lookupQueriesMax, !waiting.isEmpty else { return }
        let batch = Array(waiting.prefix(Limits.lookupsAtOnceMax))
        waiting.removeFirst(batch.count)
        running += 1
        begun += 1
        let query = begun
        awaited = query
        let patience = Task {
            try await Task.sleep(for: Limits.lookupPatience)
            self.stopAwaiting(query)
        }
        Task {
            await self.answer(batch)
            patience.cancel()
            self.running -= 1
            self.stopAwaiting(query)
        }
    }

    private func stopAwaiting(_ query: Int) {
        if awaited == query { awaited = nil }
        startQuery()
    }

    private func answer(_ batch: [Waiting]) async {
        do throws(ReadError) {
            let answers = try await find(batch.map(\.question))
            for (waiting, answer) in zip(batch, answers) { waiting.continuation.resume(returning: .success(answer)) }
        } catch {
            for waiting in batch { waiting.continuation.resume(returning: .failure(error)) }
        }
    }

    nonisolated func find(
        _ questions: [CustomerReader.Question]
    ) async throws(ReadError) -> [CustomerReader.Answer<CustomerReader.Found>] {
        do throws(PostgresError) {
            let deadline = ContinuousClock.now + Limits.readWaitMax
            let isDistributed = try await layout.isDistributed(pool, deadline: deadline)
            let rows = try await pool.query(
                isDistributed ? CustomerReadStatements.customerGrantsOnNodes : CustomerReadStatements.customerGrants,
                [
                    .array(questions.map(\.customer.app)), .array(questions.map(\.customer.environment.rawValue)),
                    .array(questions.map(\.customer.id)), .array(questions.map { $0.customer.id.lowercased() }),
                    .array(questions.map(\.customer.kind?.rawValue)), .array(questions.map(\.at)),
                ], deadline: deadline)
            var known = [[KnownCustomer]](repeating: [], count: questions.count)
            var grants: [KnownCustomer.Part.ID: [Entitlement.Grant]] = [:]
            for row in rows {
                guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 2)),
                    let customer = try row.customerKey(at: 3)
                else { continue }
                let index = Int(try row.value(Int64.self, at: 0)) - 1
                let app: String = try row.value(at: 1)
                let place: Int
                if let found = known[index].firstIndex(where: { $0.knownBy == app && $0.kind == kind }) {
                    place = found
                } else {
                    place = known[index].count
                    known[index].append(
                        KnownCustomer(
                            knownBy: app, joinedApp: try row.optional(at: 11), kind: kind, customer: customer))
                }
                let asked = questions[index].customer.app ?? app
                let partApp: String = try row.value(at: 12)
                let joinedApp = partApp == asked ? nil : partApp
                if joinedApp != nil { known[index][place].otherApp = joinedApp }
                guard let own = try row.customerKey(at: 14) else { continue }
                let part = KnownCustomer.Part(
                    id: KnownCustomer.Part.ID(streamId: try row.value(at: 13), customer: own), joinedApp: joinedApp)
                if !known[index][place].parts.contains(part) { known[index][place].parts.append(part) }
                if let grant = try Entitlement.Grant.read(row, at: 5) { grants[part.id, default: []].append(grant) }
            }
            // Many ids may lead to one customer.
            var computed: [Calculation: [Entitlement]] = [:]
            return zip(questions, known).map { question, known in
                CustomerReader.Answer(known, of: question.customer.app).map { customer in
                    let calculation = Calculation(parts: customer.parts, at: question.at)
                    let entitlements = computed[calculation] ?? calculation.entitlements(by: grants)
                    computed[calculation] = entitlements
                    return CustomerReader.Found(
                        identity: CustomerReader.Identity(
                            app: question.customer.app ?? customer.knownBy, joinedApp: customer.otherApp,
                            knownAs: customer.kind),
                        entitlements: entitlements)
                }
            }
        } catch {
            throw ReadError(error)
        }
    }
}

/// A customer of one app, found by one of the kinds that the requested id may be of.
private struct KnownCustomer: CustomerMatch {
    let knownBy: String
    let joinedApp: String?
    let kind: CustomerKey.Kind
    let customer: CustomerKey
    /// The joined app, if the customer has a part there.
    var otherApp: String?
    var parts: [Part] = []

    /// A customer of one stream.
    struct Part: Hashable {
        let id: ID
        /// Its app, if it is not the one that was asked for.
        let joinedApp: String?

        struct ID: Hashable {
            let streamId: Int32
            let customer: CustomerKey
        }
    }
}

/// What some customers of streams, who are one, have at an instant.
private struct Calculation: Hashable {
    let parts: [KnownCustomer.Part]
    let at: Instant

    func entitlements(by grants: [KnownCustomer.Part.ID: [Entitlement.Grant]]) -> [Entitlement] {
        Entitlement.all(
            of: parts.flatMap { part in (grants[part.id] ?? []).map { $0.joined(with: part.joinedApp) } }, at: at)
    }
}

extension Entitlement.Grant {
    /// Reads the columns from the subscription to the entitlement; nil if they have no product, as for a customer without
    /// periods of one. The columns of the start and the end are those of the part of the period in which the customer
    /// owns the subscription.
    static func read(
        _ row: Row, at column: Int, joinedApp: String? = nil
    ) throws(PostgresError) -> Entitlement.Grant? {
        guard let product: String = try row.optional(at: column + 4) else { return nil }
        return Entitlement.Grant(
            entitlement: try row.optional(at: column + 5) ?? product, originalTransactionId: try row.value(at: column),
            start: try row.value(at: column + 1), end: try row.value(Timestamptz.self, at: column + 2).end,
            productId: product, position: try row.value(at: column + 3), joinedApp: joinedApp)
    }

    /// The same grant, of an app that is joined with the one that was asked for.
    fileprivate func joined(with app: String?) -> Entitlement.Grant {
        guard let app else { return self }
        var grant = self
        grant.joinedApp = app
        return grant
    }
}
