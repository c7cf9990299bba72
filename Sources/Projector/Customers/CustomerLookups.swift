import EventLog
import Postgres
import Subscriptions

/// Answers many who ask at the same time with few queries: while some are under way, the next one gathers.
actor CustomerLookups {
    private let pool: PostgresPool
    private var waiting: [Waiting] = []
    private var running = 0

    private typealias Answer = Result<[CustomerReader.Found], ReadError>

    private struct Waiting {
        let question: CustomerReader.Question
        let continuation: CheckedContinuation<Answer, Never>
    }

    init(pool: PostgresPool) {
        self.pool = pool
    }

    func find(_ question: CustomerReader.Question) async throws(ReadError) -> [CustomerReader.Found] {
        let answer = await withCheckedContinuation { continuation in
            waiting.append(Waiting(question: question, continuation: continuation))
            startQuery()
        }
        return try answer.get()
    }

    private func startQuery() {
        guard running < Limits.lookupQueriesMax, !waiting.isEmpty else { return }
        let batch = Array(waiting.prefix(Limits.lookupsAtOnceMax))
        waiting.removeFirst(batch.count)
        running += 1
        Task { await self.answer(batch) }
    }

    private func answer(_ batch: [Waiting]) async {
        do throws(ReadError) {
            let answers = try await find(batch.map(\.question))
            for (waiting, answer) in zip(batch, answers) { waiting.continuation.resume(returning: .success(answer)) }
        } catch {
            for waiting in batch { waiting.continuation.resume(returning: .failure(error)) }
        }
        running -= 1
        startQuery()
    }

    nonisolated func find(
        _ questions: [CustomerReader.Question]
    ) async throws(ReadError) -> [[CustomerReader.Found]] {
        do throws(PostgresError) {
            let rows = try await pool.query(
                CustomerReadStatements.entitlements,
                [
                    .array(questions.map(\.app)), .array(questions.map(\.environment.rawValue)),
                    .array(questions.map(\.customerId)), .array(questions.map { $0.customerId.lowercased() }),
                    .array(questions.map(\.at)),
                ], deadline: .now + Limits.readWaitMax)
            var found = [[CustomerReader.Found]](repeating: [], count: questions.count)
            for row in rows {
                let index = Int(try row.value(Int64.self, at: 0)) - 1
                let app: String = try row.value(at: 1)
                if found[index].last?.app != app {
                    let kind: String = try row.value(at: 2)
                    found[index].append(
                        CustomerReader.Found(
                            app: app, knownAs: CustomerKey.Kind(rawValue: kind) ?? .subscription, entitlements: []))
                }
                guard try row.optional(String.self, at: 3) != nil else { continue }
                let entitlement = try Entitlement.read(row, at: 3)
                found[index][found[index].count - 1].entitlements.append(entitlement)
            }
            return found
        } catch {
            throw ReadError(error)
        }
    }
}

extension Entitlement {
    /// Reads the columns from `entitlement` to `why`.
    static func read(_ row: Row, at column: Int) throws(PostgresError) -> Entitlement {
        Entitlement(
            entitlement: try row.value(at: column), until: try row.value(Timestamptz.self, at: column + 1).end,
            productIds: try row.array(of: String.self, at: column + 2).compactMap(\.self),
            subscriptions: try row.array(of: String.self, at: column + 3).compactMap(\.self),
            positions: try row.array(of: Int64.self, at: column + 4).compactMap(\.self))
    }
}
