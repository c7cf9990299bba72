import Subscriptions

/// A customer, by one of the kinds that the requested id may be of, with its parts in an app or in two joined ones.
struct JoinedMatch: CustomerMatch {
    let knownBy: String
    let joinedApp: String?
    let kind: CustomerKey.Kind
    let customer: CustomerKey
    /// Each with the index of its app.
    let parts: [JoinedCustomers.Part]
    let identity: CustomerReader.Identity

    /// - Parameters:
    ///   - apps: An app, or two that are joined.
    ///   - customers: Those of each app.
    static func all(
        of question: CustomerReader.Question, _ apps: [CustomerReader.Knowledge], _ customers: [Customers]
    ) -> [JoinedMatch] {
        let joined = JoinedCustomers(customers, at: question.at)
        return apps.enumerated().flatMap { index, known in
            question.customer.keys.compactMap { key in
                guard let customer = customers[index].customer(key, at: question.at) else { return nil }
                let own = JoinedCustomers.Part(app: index, customer: customer)
                let parts = joined.parts(with: own)
                let app = question.customer.app ?? known.app
                return JoinedMatch(
                    knownBy: known.app, joinedApp: known.joinedApp, kind: key.kind, customer: joined.name(of: own),
                    parts: parts,
                    identity: CustomerReader.Identity(
                        app: app, joinedApp: parts.map { apps[$0.app].app }.first { $0 != app }, knownAs: key.kind))
            }
        }
    }
}
