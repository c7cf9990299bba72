import Encoding
import Postgres
import Subscriptions

/// Erases a person's data: replaces the ids by pseudonyms in the log, the projections and all other tables, and removes the
/// bodies of the events that are about the person.
///
/// Each event keeps its place, its times and its digests, so the hash chain still holds. One transaction does it all and
/// appends the statement of it, so after a kill everything is as before, or done.
///
/// Source: scale, "a person's data erased, and the log still proves".
package struct Erasure: Sendable {
    let connection: PostgresConnection
    private let rewrite: ArchiveRewrite

    /// - Parameters:
    ///   - connection: Of the owner of the schema. Every other role may only append.
    ///   - listing: Another one.
    ///   - archive: Where the bodies of past months are.
    package init(
        connection: PostgresConnection, listing: PostgresConnection, archive: BodyArchive,
        onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in }
    ) {
        self.connection = connection
        rewrite = ArchiveRewrite(erasing: connection, listing: listing, archive: archive, onStep: onStep)
    }

    /// Who asks for it, and why.
    package struct Order: Sendable {
        /// The time of the statement, which is asked for once the streams are locked.
        package let now: @Sendable () -> Instant
        package let by: String
        package let reason: String
        /// 16 random bytes, from which the pseudonyms are made.
        package let random: [UInt8]
        /// Whether the stores' own ids of the person's purchases are replaced, too.
        package let replacesTransactions: Bool
        /// Whether the erasure was made before, in another copy of the log. Then it is made although a store can still report ids.
        package let isRepeated: Bool

        package init(
            now: @escaping @Sendable () -> Instant, by: String, reason: String, random: [UInt8],
            replacesTransactions: Bool = false, isRepeated: Bool = false
        ) {
            self.now = now
            self.by = by
            self.reason = reason
            self.random = random
            self.replacesTransactions = replacesTransactions
            self.isRepeated = isRepeated
        }
    }

    /// What was done in a stream.
    package struct Outcome: Sendable {
        package let stream: StreamKey
        /// Of the statement in the log.
        package let position: Int64
        package let statement: ErasureStatement
        /// How many ids were replaced.
        package let ids: Int
    }

    package enum Failure: Error, Hashable, CustomStringConvertible {
        case nobody
        case damaged(position: Int64)
        case rebuilding
        /// The projections do not contain the whole log yet.
        case behind
        case distributed
        /// Another command changes the archive files.
        case busy
        /// Bodies are in a file, and no archive folder is configured.
        case archived(file: String)
        /// The stores' own ids are another customer's, too.
        case shared(subscriptions: Int)
        /// A store can still report subscriptions by their ids.
        ///
        /// - Parameter until: When it cannot any more, if nothing happens until then.
        case open(subscriptions: Int, until: Instant)

        package var description: String {
            switch self {
            case .nobody: "nobody is known by this id"
            case .busy: "\(BodyArchiver.Failure.busy)"
            case .archived(let file):
                "bodies are in archive file \(file): set SUBLEDGER_ARCHIVE_FOLDER; nothing was erased"
            case .damaged(let position): "the facts at position \(position) are not JSON: nothing was erased"
            case .rebuilding:
                "the copy of a rebuild exists, with the person's data: finish it with subledger rebuild, or drop schema "
                    + "subledger_rebuild, and repeat the command"
            case .behind:
                "the projections do not contain the whole log yet: repeat the command when they have caught up"
            case .shared(let count):
                "--transactions is not possible: subscriptions that are, or were, another customer's, too, or that the store "
                    + "names together with one: \(count)"
            case .open(let count, let until):
                "--transactions is not possible before \(until): a store can still report subscriptions by their ids: "
                    + "\(count)"
            case .distributed: "erasing is not possible while the tables are distributed over several nodes"
            }
        }
    }

    /// An event that is about the person.
    private struct Found {
        let position: Int64
        let facts: [UInt8]
        /// The subscriptions that it is about.
        let about: [String]
        /// Whether it names some of the stores' own ids that are replaced.
        let namesTransactions: Bool
        /// Of an earlier erasure that names subscriptions which are renamed now: the events that it lists. It does not have the
        /// digest of its body any more, so the new statement lists them, and the earlier one itself.
        let covers: [ClosedRange<Int64>]
    }

    /// The events that have no body afterwards, in ascending order.
    private static func positions(_ events: [Found]) -> [Int64] {
        events.reduce(into: Set<Int64>()) { positions, event in
            positions.insert(event.position)
            for range in event.covers { positions.formUnion(range) }
        }.sorted()
    }

    /// Finds what is the person's. Changes nothing.
    ///
    /// - Parameters:
    ///   - key: Any id of the person.
    ///   - replacesTransactions: Whether the stores' own ids are replaced, too.
    ///   - now: A subscription that a store can report after it is an obstacle to that.
    ///   - onProgress: Called with the number of events looked at, and of all events.
    /// - Throws: ``Failure/nobody``, ``PostgresError``.
    package func scope(
        of key: CustomerKey, app: String, environment: Environment, replacesTransactions: Bool = false,
        at now: Instant = .latest, onProgress: (Int64, Int64) -> Void = { _, _ in }
    ) async throws -> ErasureScope {
        var scope = try await ErasureScope.find(
            key, app: app, environment: environment, transactions: replacesTransactions, on: connection,
            deadline: deadline)
        let events = try await events(of: &scope, through: try await heads(of: scope), onProgress: onProgress)
        for index in scope.parts.indices { scope.parts[index].positions = Self.positions(events[index]) }
        scope.obstacle = try await obstacle(to: scope, events, at: now)
        return scope
    }

    /// Erases what ``scope(of:app:environment:onProgress:)`` finds. Durable when this returns.
    ///
    /// Most events are read before the streams are locked.
    ///
    /// - Throws: ``Failure``, ``PostgresError``. Then nothing was erased, unless the outcome of the commit is unknown.
    package func erase(
        _ key: CustomerKey, app: String, environment: Environment, _ order: Order,
        onProgress: (Int64, Int64) -> Void = { _, _ in }
    ) async throws -> [Outcome] {
        guard try await !Distribution.isInUse(connection) else { throw Failure.distributed }
        let records = ArchiveRecords(connection: connection)
        guard try await records.beginAlone(with: [Step(Statements.lockRebuilds)]) else { throw Failure.busy }
        do {
            try await rewrite.sweep()
            guard try await connection.query(Statements.rebuild, deadline: deadline).isEmpty else {
                throw Failure.rebuilding
            }
            let first = try await ErasureScope.find(
                key, app: app, environment: environment, transactions: order.replacesTransactions, on: connection,
                deadline: deadline)
            let heads = try await heads(of: first)
            var scope = first
            var events = try await events(of: &scope, through: heads, onProgress: onProgress)
            let locked = try await lock(scope)
            var current = try await ErasureScope.find(
                key, app: app, environment: environment, transactions: order.replacesTransactions, on: connection,
                deadline: deadline)
            let isSame = current.names(thoseOf: first)
            if isSame {
                // What events showed counts for the later ones, too.
                for index in scope.parts.indices {
                    current.parts[index].keys = scope.parts[index].keys
                    current.parts[index].transactions = scope.parts[index].transactions
                }
            }
            let later = try await self.events(of: &current, through: locked, after: heads)
            if !isSame || later.contains(where: { !$0.isEmpty }) {
                // Something about the person came meanwhile.
                scope = current
                events = try await self.events(of: &scope, through: locked, onProgress: onProgress)
            }
            let at = order.now()
            let end = order.isRepeated ? Instant.latest : at
            if let obstacle = try await obstacle(to: scope, events, at: end) { throw obstacle }
            let pseudonyms = Pseudonyms(
                stem: Pseudonyms.stem(of: order.random), keys: scope.parts[0].keys, kept: scope.parts[0].kept,
                transactions: scope.parts[0].transactions)
            _ = try await connection.query(Statements.allow, deadline: deadline)
            var outcomes: [Outcome] = []
            for (part, events) in zip(scope.parts, events) where !events.isEmpty {
                try await erase(part, events, pseudonyms, at: at)
                outcomes.append(try await state(part, Self.positions(events), pseudonyms, order, at))
            }
            try await connection.commit(deadline: deadline)
            return outcomes
        } catch {
            try? await connection.rollback(deadline: deadline)
            throw error
        }
    }

    /// Removes the archive files that bodies were taken out of. An interrupted erasure leaves that to the next command.
    ///
    /// - Throws: ``ArchiveError``; ``PostgresError``.
    package func removeReplacedFiles() async throws {
        try await rewrite.sweep()
    }

    /// The archive files that have bodies of the person.
    package func archiveFiles(of scope: ErasureScope) async throws -> [String] {
        var names: [String] = []
        for part in scope.parts { names += try await rewrite.files(part.streamId, part.positions).map(\.name) }
        return names
    }

    /// The last positions of the streams.
    private func heads(of scope: ErasureScope) async throws -> [Int64] {
        guard !scope.isEmpty else { throw Failure.nobody }
        var heads: [Int64] = []
        for part in scope.parts {
            let rows = try await connection.query(Statements.head, [Parameter(part.streamId)], deadline: deadline)
            heads.append(try rows.first?.value(at: 0) ?? 0)
        }
        return heads
    }

    /// Stops the projector and the receivers of the streams until the end of the transaction, once the projections contain the
    /// whole log.
    ///
    /// - Returns: The last positions.
    private func lock(_ scope: ErasureScope) async throws -> [Int64] {
        var heads: [Int64] = []
        for part in scope.parts {
            let id = [Parameter(part.streamId)]
            // In this order, as projector and receivers lock one of the two.
            let projected = try await connection.query(Statements.lockProjections, id, deadline: deadline)
            let head: Int64 = try await connection.query(Statements.lockHead, id, deadline: deadline)[0].value(at: 0)
            guard try projected.first?.value(Int64.self, at: 0) ?? 0 >= head else { throw Failure.behind }
            heads.append(head)
        }
        return heads
    }

    /// The events of each part that are about the person. What they show of further ids is added to the scope.
    private func events(
        of scope: inout ErasureScope, through heads: [Int64], after starts: [Int64]? = nil,
        onProgress: (Int64, Int64) -> Void = { _, _ in }
    ) async throws -> [[Found]] {
        while true {
            var found: [[Found]] = []
            for (index, part) in scope.parts.enumerated() {
                found.append(
                    try await events(
                        of: part, after: starts?[index] ?? 0, through: heads[index], onProgress: onProgress))
            }
            guard starts != nil || found.contains(where: { !$0.isEmpty }) else { throw Failure.nobody }
            var further: Set<CustomerKey> = []
            var transactions: Set<String> = []
            for (part, events) in zip(scope.parts, found) {
                let renamed = part.renamed
                for event in events {
                    let isAbout = part.subscriptions.keys.contains(where: event.about.contains)
                    guard isAbout || part.replacesTransactions else { continue }
                    let json = try JSONDocument(event.facts).root
                    if isAbout { further.formUnion(Pseudonyms.keys(in: json)) }
                    if part.replacesTransactions {
                        transactions.formUnion(Pseudonyms.transactions(in: json, of: renamed))
                    }
                }
            }
            // Apple's numbers name no person, and the ids of grants none that is not in the grant.
            further = further.filter { key in
                key.kind != .subscription
                    || key.id.text.contains(where: { !$0.isNumber }) && !key.id.text.hasPrefix("grant:")
            }
            further.subtract(scope.parts[0].keys)
            for part in scope.parts {
                further.subtract(try await part.others(further, on: connection, deadline: deadline))
            }
            further = further.filter { !Pseudonyms.isName($0.id.text) }.subtracting(scope.parts[0].kept)
            transactions.subtract(scope.parts[0].transactions)
            guard !further.isEmpty || !transactions.isEmpty else { return found }
            for index in scope.parts.indices {
                scope.parts[index].keys.formUnion(further)
                scope.parts[index].transactions.formUnion(transactions)
            }
        }
    }

    private func erase(
        _ part: ErasureScope.Part, _ events: [Found], _ pseudonyms: Pseudonyms, at: Instant
    ) async throws {
        let id = Parameter(part.streamId)
        var renamed: [JSONB] = []
        for event in events {
            guard let facts = try? pseudonyms.renamed(event.facts) else {
                throw Failure.damaged(position: event.position)
            }
            renamed.append(JSONB(utf8: facts.text))
        }
        _ = try await connection.query(
            Statements.events, [id, .array(events.map(\.position)), .array(renamed)], deadline: deadline)
        let positions = Self.positions(events)
        _ = try await connection.query(Statements.bodies, [id, .array(positions)], deadline: deadline)
        try await rewrite.empty(part.streamId, positions, at: at)
        _ = try await connection.query(Statements.conflicts, [id, .array(positions)], deadline: deadline)
        let named = Set(events.flatMap(\.about)).union(part.subscriptions.keys).sorted()
        try await renameSubscriptionFacts(part, named, pseudonyms)
        try await renameAdditional(part, named, pseudonyms)
        let names = [id] + (try await parameters(of: pseudonyms, part, named))
        let alone = Parameter.array(part.subscriptions.filter(\.value.isAlone).map(\.key).sorted())
        _ = try await connection.query(Statements.schedule, [id, alone], deadline: deadline)
        if part.stream.environment != .unknown {
            _ = try await connection.query(Statements.receipts, names + [alone], deadline: deadline)
            for statement in Statements.purchases {
                _ = try await connection.query(statement, names, deadline: deadline)
            }
        }
        for statement in Statements.renames {
            _ = try await connection.query(statement, names, deadline: deadline)
        }
        if part.replacesTransactions { try await replaceTransactions(part, positions, pseudonyms) }
        try await removeQuarantined(part, pseudonyms)
    }

    /// The kinds of the ids, the ids and their names, with the transactions that the projections have.
    private func parameters(
        of pseudonyms: Pseudonyms, _ part: ErasureScope.Part, _ named: [String]
    ) async throws(PostgresError) -> [Parameter] {
        var names = pseudonyms.all.map { (kind: $0.key.kind.rawValue, id: $0.key.id.text, name: $0.name) }
        var transactions = part.transactions
        for row in try await connection.query(
            Statements.transactions, [Parameter(part.streamId), .array(part.renamed.union(named).sorted())],
            deadline: deadline)
        {
            transactions.insert(try row.value(at: 0))
        }
        for id in transactions.sorted() {
            if let name = pseudonyms.name(ofTransaction: id) { names.append((kind: "transaction", id: id, name: name)) }
        }
        return [.array(names.map(\.kind)), .array(names.map(\.id)), .array(names.map(\.name))]
    }

    /// Replaces what only the stores' own ids lead to.
    private func replaceTransactions(
        _ part: ErasureScope.Part, _ positions: [Int64], _ pseudonyms: Pseudonyms
    ) async throws {
        _ = try await connection.query(
            Statements.fingerprints, [Parameter(part.streamId), .array(positions), Parameter(pseudonyms.stem)],
            deadline: deadline)
        let rows = try await connection.query(
            Statements.reportRows, [Parameter(part.stream.app), .array(pseudonyms.orders)], deadline: deadline)
        var written: [(name: String, digest: [UInt8], line: Int32, order: String?, fields: JSONB)] = []
        for row in rows {
            let order: String = try row.value(at: 3)
            let fields = try pseudonyms.renamed(try row.value(JSONB.self, at: 4).utf8).text
            written.append(
                (
                    name: try row.value(at: 0), digest: try row.value(at: 1), line: try row.value(at: 2),
                    order: pseudonyms.name(ofTransaction: order), fields: JSONB(utf8: fields)
                ))
        }
        _ = try await connection.query(
            Statements.writeReportRows,
            [
                .array(written.map(\.name)), .array(written.map(\.digest)), .array(written.map(\.line)),
                .array(written.map(\.order)), .array(written.map(\.fields)),
            ], deadline: deadline)
    }

    /// Why the stores' own ids cannot be replaced; nil if they can, or need not.
    ///
    /// A subscription of another customer keeps its id, so nothing may tie one that is renamed to it: the order of ids decides
    /// about store accounts, and names have another order.
    ///
    /// - Parameter now: A store must have nothing to report any more at this time.
    private func obstacle(
        to scope: ErasureScope, _ events: [[Found]], at now: Instant
    ) async throws(PostgresError) -> Failure? {
        var shared: Set<String> = []
        var open: Set<String> = []
        var until: Instant?
        for (part, events) in zip(scope.parts, events) where part.replacesTransactions {
            let renamed = part.renamed
            shared.formUnion(part.subscriptions.filter { $0.value.isShared || !$0.value.isAlone }.keys)
            for event in events where event.namesTransactions {
                shared.formUnion(
                    event.about.filter { id in
                        !renamed.contains(id) && !CustomerKey(.subscription, id).isGrant && !Pseudonyms.isName(id)
                    })
            }
            let asked = [
                Parameter(part.streamId), .array(renamed.sorted()), .array(part.transactions.sorted()),
            ]
            for row in try await connection.query(Statements.sharedTransactions, asked, deadline: deadline) {
                shared.insert(try row.value(at: 0))
            }
            let periods = [
                Parameter(now), Parameter(Limits.erasureEndedSeconds), Parameter(Limits.erasureFailedSeconds),
            ]
            for row in try await connection.query(Statements.open, asked + periods, deadline: deadline) {
                open.insert(try row.value(at: 0))
                until = try max(until ?? .earliest, row.value(at: 1))
            }
        }
        if !shared.isEmpty { return .shared(subscriptions: shared.count) }
        return until.map { .open(subscriptions: open.count, until: $0) }
    }

    /// Appends the statement, in the open transaction.
    private func state(
        _ part: ErasureScope.Part, _ positions: [Int64], _ pseudonyms: Pseudonyms, _ order: Order, _ at: Instant
    ) async throws -> Outcome {
        let subscriptions = part.lines.map { id in
            pseudonyms.name(of: CustomerKey(.subscription, id)) ?? id
        }
        let statement = ErasureStatement(
            pseudonym: pseudonyms.stem, at: at, by: order.by, reason: order.reason,
            subscriptions: subscriptions.sorted { ByteString($0) < ByteString($1) },
            positions: ErasureStatement.ranges(of: positions), replacesTransactions: order.replacesTransactions)
        let stated = StatedEvent(
            statement.event(environment: part.stream.environment, app: part.stream.app, receivedAt: at),
            text: statement.canonicalText, stream: part.stream)
        let appended = try await EventLogWriter.append(
            PreparedEvent(stated, receivedAt: at), streamId: part.streamId, in: connection, deadline: deadline)
        return Outcome(
            stream: part.stream, position: appended.position, statement: statement, ids: pseudonyms.count)
    }

    private func renameSubscriptionFacts(
        _ part: ErasureScope.Part, _ named: [String], _ pseudonyms: Pseudonyms
    ) async throws {
        let rows = try await connection.query(
            Statements.subscriptionFacts, [Parameter(part.streamId), .array(named)], deadline: deadline)
        var ids: [String] = []
        var texts: [String] = []
        for row in rows {
            let id: String = try row.value(at: 0)
            let text: String = try row.value(at: 1)
            let renamed = try pseudonyms.renamed(Array(text.utf8)).text
            // Facts stand in the order of their texts, and the names may have another one.
            let facts = try SubscriptionFacts(originalTransactionId: id, json: try JSONDocument(renamed).root)
            var writer = JSONWriter(bytesExpected: facts.textBytesExpected)
            facts.write(to: &writer)
            ids.append(id)
            texts.append(writer.text)
        }
        _ = try await connection.query(
            Statements.writeSubscriptionFacts, [Parameter(part.streamId), .array(ids), .array(texts)],
            deadline: deadline)
    }

    private func renameAdditional(
        _ part: ErasureScope.Part, _ named: [String], _ pseudonyms: Pseudonyms
    ) async throws {
        var rows: [(String, String, JSONB)] = []
        for row in try await connection.query(
            Statements.additional, [Parameter(part.streamId), .array(named)], deadline: deadline)
        {
            let text = try pseudonyms.renamed(try row.value(JSONB.self, at: 2).utf8).text
            rows.append((try row.value(at: 0), try row.value(at: 1), JSONB(utf8: text)))
        }
        _ = try await connection.query(
            Statements.writeAdditional,
            [
                Parameter(part.streamId), .array(rows.map { $0.0 }), .array(rows.map { $0.1 }),
                .array(rows.map { $0.2 }),
            ], deadline: deadline)
    }

    private func removeQuarantined(_ part: ErasureScope.Part, _ pseudonyms: Pseudonyms) async throws {
        let rows = try await connection.query(
            Statements.quarantined, [Parameter(part.stream.app)], deadline: deadline)
        var numbers: [Int64] = []
        for row in rows {
            let body: [UInt8] = try row.value(at: 1)
            if pseudonyms.areIn(body, orAnyOf: part.subscriptions.keys) { numbers.append(try row.value(at: 0)) }
        }
        guard !numbers.isEmpty else { return }
        _ = try await connection.query(Statements.removeQuarantined, [.array(numbers)], deadline: deadline)
    }

    /// The events that are about the person: those that name an id of the person's, and those about a subscription while it
    /// was the person's. Earlier erasures are not, though they name subscriptions, unless the ids of these are replaced.
    private func events(
        of part: ErasureScope.Part, after start: Int64, through head: Int64, onProgress: (Int64, Int64) -> Void
    ) async throws -> [Found] {
        let own = Pseudonyms(stem: "", keys: part.keys, kept: part.kept, transactions: part.transactions)
        let transactions =
            part.replacesTransactions
            ? Pseudonyms(
                stem: "", keys: part.keys.filter { $0.kind == .subscription }, transactions: part.transactions) : nil
        let texts = Set(part.keys.map(\.id.text)).union(part.subscriptions.keys)
        // As a JSON string; `like` has characters of its own.
        func pattern(_ text: String, isWhole: Bool) -> String {
            var writer = JSONWriter()
            writer.value(text.lowercased())
            let quoted = isWhole ? writer.text : String(writer.text.dropLast())
            return "%" + quoted.replacing(/[\\%_]/) { "\\" + String($0.output) } + "%"
        }
        // Apple's transactions are named together with their subscriptions. An order can be named alone, and has a number at
        // its end if it is a renewal.
        let patterns =
            texts.sorted().map { pattern($0, isWhole: true) } + own.orders.map { pattern($0, isWhole: false) }
        var reports: [Int64] = []
        if part.replacesTransactions {
            let rows = try await connection.query(
                Statements.reports, [Parameter(part.streamId), .array(part.renamed.sorted())], deadline: deadline)
            for row in rows { reports.append(try row.value(at: 0)) }
        }
        var found: [Found] = []
        var position = start
        while position < head {
            let end = min(head, position + Int64(Limits.erasurePageEvents))
            let rows = try await connection.query(
                Statements.page,
                [
                    Parameter(part.streamId), Parameter(position), Parameter(end), .array(patterns), .array(reports),
                    Parameter(part.replacesTransactions),
                ], deadline: deadline)
            for row in rows {
                let at: Int64 = try row.value(at: 0)
                let text = try row.value(JSONB.self, at: 2).utf8
                guard let json = try? JSONDocument(text).root, let renamed = try? own.renamed(text) else {
                    throw Failure.damaged(position: at)
                }
                var about = (try? EventFacts(json: json)).map { Array($0.bySubscription.keys) } ?? []
                for statement in [json["write"], json["notification"]] {
                    if let id = statement?.string("originalTransactionId") { about.append(id) }
                }
                let receivedAt: Instant = try row.value(at: 1)
                guard renamed.count > 0 || part.isOwned(about, at: receivedAt) else { continue }
                let earlier = json["erasure"].flatMap { try? ErasureStatement(json: $0) }
                found.append(
                    Found(
                        position: at, facts: text, about: about,
                        namesTransactions: try transactions.map { try $0.renamed(text).count > 0 } ?? false,
                        covers: earlier?.positions ?? []))
            }
            position = end
            onProgress(position, head)
        }
        return found
    }

    /// A stream is read as a whole, which takes long if it is large.
    var deadline: ContinuousClock.Instant { .now + Limits.erasureWaitMax }
}

extension ErasureStatement {
    /// The statement as an event of the log.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }
}
