import EventLog
import Postgres
import Subscriptions

/// Which account tokens more people share than the app's rules allow.
extension CustomerFold {
    /// Tokens of which it changed whether they are shared, in order.
    struct Crossed {
        var newlyShared: [CustomerKey] = []
        var noLongerShared: [CustomerKey] = []

        init() {}

        /// - Parameter rows: Tokens, each with whether it was shared and whether it is.
        init(_ rows: RowSet) throws(PostgresError) {
            for row in rows {
                let token = CustomerKey(.account, try row.value(String.self, at: 0))
                switch (try row.value(Bool.self, at: 1), try row.value(Bool.self, at: 2)) {
                case (false, true): newlyShared.append(token)
                case (true, false): noLongerShared.append(token)
                case (true, true), (false, false): break
                }
            }
            newlyShared.sort()
            noLongerShared.sort()
        }
    }

    /// Counts the people who buy with some tokens, up to the limit, and records which tokens are shared. The edges and
    /// the periods must have been written.
    func recount(_ tokens: [CustomerKey: Int64]) async throws(PostgresError) -> Crossed {
        var crossed = Crossed()
        guard !tokens.isEmpty else { return crossed }
        crossed = try Crossed(
            try await connection.query(
                Step(
                    CustomerStatements.countPeople,
                    [
                        Parameter(streamId), .array(tokens.keys.map(\.id.text).sorted()),
                        Parameter(Int64(rules.storeAccountsPerTokenMax)),
                    ])))
        try await write(crossed)
        return crossed
    }

    private func write(_ crossed: Crossed) async throws(PostgresError) {
        if !crossed.newlyShared.isEmpty {
            let ids = crossed.newlyShared.map(\.id.text)
            _ = try await connection.query(
                Step(CustomerStatements.writeSharedTokens, [Parameter(streamId), .array(ids)]))
        }
        if !crossed.noLongerShared.isEmpty {
            let ids = crossed.noLongerShared.map(\.id.text)
            _ = try await connection.query(
                Step(CustomerStatements.deleteSharedTokens, [Parameter(streamId), .array(ids)]))
        }
    }

    /// Counts the people who buy with each token by changed rules or rows, and records which tokens are shared.
    func recountAllTokens() async throws(PostgresError) -> Crossed {
        let crossed = try Crossed(
            try await connection.query(
                Step(
                    CustomerStatements.countPeopleOfAll,
                    [Parameter(streamId), Parameter(Int64(rules.storeAccountsPerTokenMax))]),
                deadline: .now + Limits.tableWaitMax))
        try await write(crossed)
        return crossed
    }

    /// Computes the store accounts with purchases with a token again, some at a time.
    func update(
        subscriptionsOf token: CustomerKey, position: Int64, cause: (Int64) -> Change.Cause
    ) async throws(PostgresError) -> ProjectionOutcome<[Moved]> {
        var moved: [Moved] = []
        var (storeAccount, subscription) = ("", "")
        while true {
            let rows = try await connection.query(
                Step(
                    CustomerStatements.pageTokenSubscriptions,
                    [
                        Parameter(streamId), Parameter(token.id.text), Parameter(storeAccount),
                        Parameter(subscription), Parameter(Limits.tokenSubscriptionsMax),
                    ]))
            guard rows.count > 0 else { return .success(moved) }
            var touched: [CustomerKey: Int64] = [:]
            for row in rows {
                storeAccount = try row.value(at: 0)
                subscription = try row.value(at: 1)
                touched[CustomerKey(.subscription, subscription)] = position
            }
            switch try await update(around: touched, known: [:], cause: cause) {
            case .success(let found): moved += found
            case .failure(let failure): return .failure(failure)
            }
        }
    }
}
