import EventLog
import Postgres
import Subscriptions

/// Which account tokens more store accounts share than the app's rules allow.
extension CustomerFold {
    /// Tokens of which it changed whether they are shared, in order.
    struct Crossed {
        var newlyShared: [CustomerKey] = []
        var noLongerShared: [CustomerKey] = []
    }

    /// Counts the store accounts of some tokens, up to the limit, and records which tokens are shared. The edges must
    /// have been written.
    func recount(_ tokens: [CustomerKey: Int64]) async throws(PostgresError) -> Crossed {
        var crossed = Crossed()
        guard !tokens.isEmpty else { return crossed }
        let limit = Parameter(Int64(rules.storeAccountsPerTokenMax))
        for row in try await connection.query(
            Step(
                CustomerStatements.countStoreAccounts,
                [Parameter(streamId), .array(tokens.keys.map(\.id.text).sorted()), limit]))
        {
            let token = CustomerKey(.account, try row.value(String.self, at: 0))
            switch (try row.value(Bool.self, at: 1), try row.value(Bool.self, at: 2)) {
            case (false, true): crossed.newlyShared.append(token)
            case (true, false): crossed.noLongerShared.append(token)
            case (true, true), (false, false): break
            }
        }
        crossed.newlyShared.sort()
        crossed.noLongerShared.sort()
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
        return crossed
    }

    /// Counts the store accounts of all tokens by changed rules, and records which tokens are shared.
    ///
    /// - Returns: The number of tokens that were not shared before.
    func recountAllTokens() async throws(PostgresError) -> Int {
        try await connection.query(
            Step(
                CustomerStatements.replaceSharedTokens,
                [Parameter(streamId), Parameter(Int64(rules.storeAccountsPerTokenMax))]),
            deadline: .now + Limits.tableWaitMax
        ).count
    }

    /// Computes the store accounts with purchases with a token again, some at a time.
    func update(
        subscriptionsOf token: CustomerKey, position: Int64
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
            switch try await update(around: touched, known: [:], cause: { .event(position: $0) }) {
            case .success(let found): moved += found
            case .failure(let failure): return .failure(failure)
            }
        }
    }
}
