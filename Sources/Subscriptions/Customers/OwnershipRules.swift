/// How the customers of an app are computed.
package struct OwnershipRules: Sendable, Hashable {
    package var policy: OwnershipPolicy
    /// Most store accounts whose purchases may carry one account token. Apps that set one token for everybody would make
    /// all of them one customer, so a token of more store accounts is no evidence.
    package var storeAccountsPerTokenMax: Int

    /// What can be configured. Purchases with a token are counted up to the limit, so a high one costs time.
    package static let storeAccountsPerTokenRange = 1...1000

    /// The rules of an app that configures none.
    package static let standard = OwnershipRules(policy: .standard)

    /// The standard limit is far above the store accounts that one person uses.
    package init(policy: OwnershipPolicy, storeAccountsPerTokenMax: Int = 10) {
        self.policy = policy
        self.storeAccountsPerTokenMax = storeAccountsPerTokenMax
    }

    /// The rules as the database stores them: the policy and the limit, such as `latest-buyer 10`.
    package var text: String { "\(policy.rawValue) \(storeAccountsPerTokenMax)" }

    /// Nil for a text that ``text`` does not return.
    package init?(text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, let policy = OwnershipPolicy(rawValue: String(words[0])), let limit = Int(words[1]),
            Self.storeAccountsPerTokenRange.contains(limit)
        else { return nil }
        self.init(policy: policy, storeAccountsPerTokenMax: limit)
        guard self.text == text else { return nil }
    }
}
