import Foundation

/// What the user of an app has bought, and what it entitles to.
///
/// Make one for the app, and call ``start(user:customerId:assertion:)`` when a user logs in and at each launch. It hands every
/// transaction in, finishes it when the server has stored it, and keeps the server's last signed answer, so that access needs
/// no network.
public actor Subledger {
    let configuration: Configuration
    let store: any Store
    let transport: any Transport
    let cache: any EntitlementCache
    let clock: any TrustedClock
    let random: @Sendable () -> Double

    var session: Session?
    /// Transactions that the server has not stored, in the order in which the store gave them.
    var waiting: [SignedTransaction] = []
    /// Those that the server refused since the start, by id. The store gives them again at the next launch.
    var refused: [String: SubledgerError] = [:]
    /// Hand-ins are made one at a time; these wait for their turn.
    var isHandingIn = false
    var turns: [CheckedContinuation<Void, Never>] = []
    /// How many transactions the listener has handled.
    var received = 0
    /// The last work that no caller waits for.
    var background: Task<Void, Never>?
    /// What time it is at least: of the device, whoever uses it.
    var anchor: TimeAnchor?
    /// ``anchor`` as it was last written to the cache.
    var keptAnchor: TimeAnchor?
    var listener: Task<Void, Never>?
    var retry: Task<Void, Never>?
    var failures = 0
    var alarm: Task<Void, Never>?
    private nonisolated let announcements = Announcements()

    /// Stands for the device in the cache: no user has it.
    static let device = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    /// The user who is logged in.
    struct Session: Sendable {
        let user: UUID
        let assertion: any UserAssertion
        var answer: CachedAnswer
        /// The checked text of ``answer``.
        var token: EntitlementToken?
        /// Whether the server answered with it, or confirmed it, since the start.
        var isFresh = false

        var customerId: String { answer.customerId }
    }

    /// - Parameter random: From 0 to below 1; spreads the pauses after failures.
    public init(
        _ configuration: Configuration, store: any Store, transport: any Transport, cache: any EntitlementCache,
        clock: any TrustedClock = SystemClock(), random: @escaping @Sendable () -> Double = { .random(in: 0..<1) }
    ) {
        self.configuration = configuration
        self.store = store
        self.transport = transport
        self.cache = cache
        self.clock = clock
        self.random = random
    }

    deinit {
        retry?.cancel()
        alarm?.cancel()
        guard let listener else { return }
        listener.cancel()
        Listeners.remove(store)
    }

    /// Begins to work for a user: reads the last answer, listens to the store, and hands in what was not handed in, in the
    /// background.
    ///
    /// - Parameters:
    ///   - user: Becomes the `appAccountToken` of purchases. Not the nil UUID.
    ///   - customerId: The user's id on the server, which the assertion names as `sub`. The user in lower case if nil.
    /// - Throws: ``SubledgerError/userIsNil``; ``SubledgerError/alreadyStarted`` without a ``signOut()`` in between, or if
    ///   another object listens to the store.
    public func start(user: UUID, customerId: String? = nil, assertion: any UserAssertion) async throws {
        guard user != Self.device else { throw SubledgerError.userIsNil }
        guard session == nil, Listeners.add(store) else { throw SubledgerError.alreadyStarted }
        session = Session(user, customerId ?? user.uuidString.lowercased(), assertion, cache, configuration)
        refused = [:]
        received = 0
        anchor = anchor ?? cache.read(Self.device).flatMap { try? JSONDecoder().decode(TimeAnchor.self, from: $0) }
        let updates = store.updates
        listener = Task { [weak self] in
            for await transaction in updates { await self?.receive(transaction) }
        }
        await publish()
        let earlier = background
        background = Task { [weak self] in
            await earlier?.value
            await self?.catchUp()
        }
    }

    /// Ends the work for the user. The last answer stays on the device, for the user's next login without network.
    public func signOut() async {
        guard session != nil else { return }
        session = nil
        listener?.cancel()
        listener = nil
        Listeners.remove(store)
        retry?.cancel()
        alarm?.cancel()
        failures = 0
        waiting = []
        await publish()
    }

    /// The entitlements, whenever they change, beginning with those of now. Each call makes a stream of its own.
    public nonisolated var entitlements: AsyncStream<Entitlements> { announcements.stream() }

    /// What the user may use now. Never waits for the network.
    public func current() async -> Entitlements { await publish() }

    /// Hands in what was not handed in, and asks the server.
    ///
    /// - Throws: ``SubledgerError`` if the server did not answer. ``current()`` then has what is known without it.
    public func refresh() async throws -> Entitlements {
        guard session != nil else { throw SubledgerError.notStarted }
        await handIn()
        do {
            try await ask()
        } catch {
            await publish()
            throw error
        }
        return await publish()
    }

    /// Buys a product for the user.
    ///
    /// If the server cannot be reached, the purchase is handed in later, and grants what the device knows meanwhile.
    ///
    /// - Throws: ``SubledgerError/purchasePending``, ``SubledgerError/purchaseCancelled``; ``SubledgerError/refused(status:detail:)``
    ///   if the server does not accept the purchase; an error of the store.
    public func purchase(_ productId: String, _ options: PurchaseOptions = .init()) async throws -> Entitlements {
        guard let user = session?.user else { throw SubledgerError.notStarted }
        switch try await store.purchase(productId, by: user, options: options) {
        case .pending: throw SubledgerError.purchasePending
        case .cancelled: throw SubledgerError.purchaseCancelled
        case .bought(let transaction):
            enqueue(transaction)
            await handIn()
            if let refusal = refused[transaction.id] { throw refusal }
            try? await ask()
            return await publish()
        }
    }

    /// Asks the store for all purchases of its account, and hands them in for the user. Call it only when the user asked for
    /// it: the store may ask for a password, and the server may move purchases from another user to this one.
    ///
    /// - Throws: ``SubledgerError`` if the server could not be asked about what was found; an error of the store.
    public func restore() async throws -> Restoration {
        guard session != nil else { throw SubledgerError.notStarted }
        try await store.sync()
        let found = await store.current()
        let appTransaction = try? await store.appTransaction()
        let refused = try await handIn(restored: found, appTransaction: appTransaction)
        await handIn()
        try await ask()
        return Restoration(
            entitlements: await publish(), productIds: Set(found.map(\.productId)).sorted(),
            refused: Set(refused).sorted())
    }

    /// The products with these ids that the store knows.
    public func products(_ ids: Set<String>) async throws -> [StoreProduct] { try await store.products(ids) }

    // MARK: - Publishing

    /// Computes the entitlements of now, announces them if they changed, and sets an alarm for when the next one ends.
    @discardableResult
    func publish() async -> Entitlements {
        let purchases = session == nil ? [] : await store.current()
        let entitlements = entitlements(with: purchases)
        announcements.announce(entitlements)
        setAlarm(entitlements)
        return entitlements
    }

    private func setAlarm(_ entitlements: Entitlements) {
        alarm?.cancel()
        let ends = entitlements.active.compactMap(\.until) + [session?.token?.validUntil].compactMap(\.self)
        guard let next = ends.filter({ $0 > entitlements.asOf }).min() else { return }
        let seconds = next.timeIntervalSince(entitlements.asOf)
        alarm = Task { [weak self, clock] in
            await clock.sleep(seconds: seconds)
            guard !Task.isCancelled else { return }
            await self?.publish()
        }
    }
}
