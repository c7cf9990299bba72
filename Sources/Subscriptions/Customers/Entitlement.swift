import Encoding

/// An entitlement that a customer has or had: the last unbroken run of access that grants it.
package struct Entitlement: Sendable, Hashable {
    package let entitlement: String
    /// End of the run; ``Instant/latest`` if it has none.
    package let until: Instant
    /// Sorted by bytes.
    package let productIds: [String]
    /// `originalTransactionId`s of the subscriptions that grant the run, sorted by bytes.
    package let subscriptions: [String]
    /// The positions of the events that first reported the run's periods, ascending; without those of ``joined``.
    package let positions: [Int64]
    /// What comes from the app that is joined with the answer's; nil if nothing does.
    package let joined: Joined?

    /// The part of a run in the stream of a joined app.
    package struct Joined: Sendable, Hashable {
        package let app: String
        /// Those of ``Entitlement/subscriptions`` that are of the app.
        package let subscriptions: [String]
        /// In the app's stream, ascending.
        package let positions: [Int64]
    }

    package init(
        entitlement: String, until: Instant, productIds: [String], subscriptions: [String], positions: [Int64],
        joined: Joined? = nil
    ) {
        self.entitlement = entitlement
        self.until = until
        self.productIds = productIds.sorted { ByteString($0) < ByteString($1) }
        self.subscriptions = subscriptions.sorted { ByteString($0) < ByteString($1) }
        self.positions = positions.sorted()
        self.joined = joined
    }

    package func isActive(at instant: Instant) -> Bool { instant < until }

    /// A period that grants one entitlement.
    package struct Grant: Sendable {
        let entitlement: String
        let originalTransactionId: String
        let start: Instant
        let end: Instant
        let productId: String
        let position: Int64
        /// The app that has the period, if it is not the answer's but joined with it.
        package var joinedApp: String?

        package init(
            entitlement: String, originalTransactionId: String, start: Instant, end: Instant, productId: String,
            position: Int64, joinedApp: String? = nil
        ) {
            self.entitlement = entitlement
            self.originalTransactionId = originalTransactionId
            self.start = start
            self.end = end
            self.productId = productId
            self.position = position
            self.joinedApp = joinedApp
        }
    }

    /// Returns the entitlements that subscriptions grant at an instant, each once, sorted by bytes. Equal to the result
    /// of the SQL view for current data.
    ///
    /// - Parameter entitlements: Entitlements by product; a product that is not in it grants its own id.
    package static func all(
        of subscriptions: [Subscription], entitlements: [String: [String]], at instant: Instant
    ) -> [Entitlement] {
        all(of: grants(of: subscriptions, entitlements: entitlements), at: instant)
    }

    /// The entitlements that a product grants, and why.
    static func names(
        of product: String, _ entitlements: [String: [String]]
    ) -> (names: [String], rule: ExplanationRule) {
        guard let configured = entitlements[product] else { return ([product], .ownName) }
        return (configured, .mapped)
    }

    /// What each period of access grants.
    ///
    /// - Parameter joinedApp: The app of the subscriptions, if it is not the answer's but joined with it.
    package static func grants(
        of subscriptions: [Subscription], entitlements: [String: [String]], joinedApp: String? = nil
    ) -> [Grant] {
        var grants: [Grant] = []
        for subscription in subscriptions {
            for period in subscription.access {
                guard let product = period.productId else { continue }
                for name in names(of: product, entitlements).names {
                    grants.append(
                        Grant(
                            entitlement: name, originalTransactionId: subscription.originalTransactionId,
                            start: period.start, end: period.end, productId: product, position: period.position,
                            joinedApp: joinedApp))
                }
            }
        }
        return grants
    }

    /// Like ``all(of:entitlements:at:)``, for periods whose entitlements are known.
    package static func all(of grants: [Grant], at instant: Instant) -> [Entitlement] {
        Dictionary(grouping: grants) { ByteString($0.entitlement) }.sorted { $0.key < $1.key }
            .compactMap { name, grants in
                lastRun(grants, at: instant).map { run in
                    Entitlement(
                        entitlement: name.text, until: run.map(\.end).max() ?? .earliest,
                        productIds: Array(Set(run.map(\.productId))),
                        subscriptions: Array(Set(run.map(\.originalTransactionId))),
                        positions: Array(Set(run.filter { $0.joinedApp == nil }.map(\.position))), joined: joined(run))
                }
            }
    }

    /// The part of a run that a joined app has. An app is joined with one other at most.
    private static func joined(_ run: [Grant]) -> Joined? {
        let part = run.filter { $0.joinedApp != nil }
        guard let app = part.first?.joinedApp else { return nil }
        return Joined(
            app: app, subscriptions: Set(part.map { ByteString($0.originalTransactionId) }).sorted().map(\.text),
            positions: Set(part.map(\.position)).sorted())
    }

    /// Returns the last run that began by the instant; periods that overlap or touch form one run.
    private static func lastRun(_ grants: [Grant], at instant: Instant) -> [Grant]? {
        var run: [Grant] = []
        var end = Instant.earliest
        for next in grants.sorted(by: { $0.start < $1.start }) {
            if next.start > end || run.isEmpty {
                if next.start > instant { break }
                run = []
                end = next.end
            }
            run.append(next)
            end = max(end, next.end)
        }
        return run.isEmpty ? nil : run
    }

    package func write(at instant: Instant, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("entitlement", entitlement)
            writer.member("active", isActive(at: instant))
            writer.member("until", end: until)
            writer.key("productIds")
            writer.array(productIds) { $0.value($1) }
            writer.key("subscriptions")
            writer.array(subscriptions) { $0.value($1) }
            writer.key("positions")
            writer.array(positions) { $0.value($1) }
            guard let joined else { return }
            writer.key("joined")
            writer.object { writer in
                writer.member("app", joined.app)
                writer.key("subscriptions")
                writer.array(joined.subscriptions) { $0.value($1) }
                writer.key("positions")
                writer.array(joined.positions) { $0.value($1) }
            }
        }
    }
}
