import Encoding
import Postgres
import Subscriptions

// Erasures of a log, repeated in one that lacks them, as a backup from before them does.
//
// A statement names nobody, so the person is found by the events that it lists: whoever all of them, and no others, are about.

extension Erasure {
    /// A statement with its place in a log.
    package struct Record: Sendable, Hashable {
        package let stream: StreamKey
        package let position: Int64
        package let statement: ErasureStatement

        package init(stream: StreamKey, position: Int64, statement: ErasureStatement) {
            self.stream = stream
            self.position = position
            self.statement = statement
        }
    }

    /// A person who was erased, and whose data this log has.
    package struct Repetition: Sendable {
        /// An id of the person.
        package let key: CustomerKey
        package let app: String
        package let environment: Environment
        package let scope: ErasureScope
        /// The random bytes of the first erasure; nil if its pseudonym is in use.
        package let random: [UInt8]?
    }

    /// What of an erasure is not done in this log.
    package struct Missing: Sendable {
        package internal(set) var repetitions: [Repetition] = []
        /// How many of the events that were erased cannot be told to be one person's.
        package internal(set) var unexplained = 0
    }

    /// The erasures of all streams, in order of stream and position.
    package func records() async throws(PostgresError) -> [Record] {
        var records: [Record] = []
        for row in try await connection.query(Statements.records, deadline: deadline) {
            guard let environment = Environment(rawValue: try row.value(at: 1)),
                let json = try? JSONDocument(try row.value(JSONB.self, at: 3).utf8).root,
                let statement = try? ErasureStatement(json: json)
            else { continue }
            records.append(
                Record(
                    stream: StreamKey(app: try row.value(at: 0), environment: environment),
                    position: try row.value(at: 2), statement: statement))
        }
        return records
    }

    /// Finds what of an erasure is not done in this log. Changes nothing.
    ///
    /// Only events that the log had at the time of the erasure count: what has come since has other positions.
    ///
    /// - Parameter records: The statements with one pseudonym, one for each stream.
    /// - Throws: ``PostgresError``; ``Failure``.
    package func missing(of records: [Record]) async throws -> Missing {
        var missing = Missing()
        guard let first = records.first else { return missing }
        let replacesTransactions = first.statement.replacesTransactions
        let erased = try await erasedEvents(of: records)
        let open = erased.open
        guard !open.isEmpty else { return missing }
        // A stream of what names no environment is looked at with the others of its app.
        let environment = records.map(\.stream.environment).first { $0 != .unknown } ?? first.stream.environment
        var isPseudonymFree = try await !self.records().contains { $0.statement.pseudonym == first.statement.pseudonym }
        var found: [(repetition: Repetition, covers: Set<Place>)] = []
        var tried: Set<CustomerKey> = []
        for event in open {
            for key in event.keys.subtracting(tried).sorted() {
                tried.insert(key)
                let app = event.place.stream.app
                let known = try await scopeIfKnown(
                    of: key, app: app, environment: environment, replacesTransactions: replacesTransactions)
                // With an obstacle, later events have made it another customer's, too.
                guard let scope = known, scope.obstacle == nil else { continue }
                let reached = try await reached(by: scope, before: first.statement.at)
                guard reached.isSubset(of: erased.places) else { continue }
                let covers = reached.intersection(open.map(\.place))
                guard !covers.isEmpty else { continue }
                found.append(
                    (
                        Repetition(key: key, app: app, environment: environment, scope: scope, random: nil), covers
                    ))
                for part in scope.parts { tried.formUnion(part.keys) }
                if covers.count == open.count { break }
            }
            if found.last?.covers.count == open.count { break }
        }
        var rest = Set(open.map(\.place))
        // Whoever has the most of them first: others may be named by single events of the person.
        while let most = found.max(by: { $0.covers.intersection(rest).count < $1.covers.intersection(rest).count }),
            !most.covers.isDisjoint(with: rest)
        {
            rest.subtract(most.covers)
            let random = isPseudonymFree ? Pseudonyms.random(of: first.statement.pseudonym) : nil
            isPseudonymFree = false
            missing.repetitions.append(
                Repetition(
                    key: most.repetition.key, app: most.repetition.app, environment: environment,
                    scope: most.repetition.scope, random: random))
        }
        missing.unexplained = rest.count
        return missing
    }

    /// An event of the log.
    private struct Place: Hashable {
        let stream: StreamKey
        let position: Int64
    }

    /// The events that an erasure lists, as far as this log has them, and those that are not erased. If the erasure replaced the
    /// stores' own ids, only one that did the same counts.
    private func erasedEvents(
        of records: [Record]
    ) async throws -> (places: Set<Place>, open: [(place: Place, keys: Set<CustomerKey>)]) {
        var places: Set<Place> = []
        var open: [(place: Place, keys: Set<CustomerKey>)] = []
        for record in records {
            let ranges = record.statement.positions
            let rows = try await connection.query(
                Statements.listed,
                [
                    Parameter(record.stream.app), Parameter(record.stream.environment.rawValue),
                    .array(ranges.map(\.lowerBound)), .array(ranges.map(\.upperBound)), Parameter(record.statement.at),
                    Parameter(record.statement.replacesTransactions),
                ], deadline: deadline)
            for row in rows {
                let place = Place(stream: record.stream, position: try row.value(at: 0))
                places.insert(place)
                if try row.value(Bool.self, at: 2) { continue }
                guard let json = try? JSONDocument(try row.value(JSONB.self, at: 1).utf8).root else {
                    throw Failure.damaged(position: place.position)
                }
                var keys = Pseudonyms.keys(in: json)
                if let facts = try? EventFacts(json: json) {
                    keys.formUnion(facts.bySubscription.keys.map { CustomerKey(.subscription, $0) })
                }
                open.append((place, keys.filter { !Pseudonyms.isName($0.id.text) }))
            }
        }
        return (places, open)
    }

    private func scopeIfKnown(
        of key: CustomerKey, app: String, environment: Environment, replacesTransactions: Bool
    ) async throws -> ErasureScope? {
        do {
            return try await scope(
                of: key, app: app, environment: environment, replacesTransactions: replacesTransactions)
        } catch Failure.nobody {
            return nil
        }
    }

    /// The events that an erasure would reach, without those that came after an instant.
    private func reached(by scope: ErasureScope, before instant: Instant) async throws -> Set<Place> {
        var places: Set<Place> = []
        for part in scope.parts {
            let rows = try await connection.query(
                Statements.earlier, [Parameter(part.streamId), .array(part.positions), Parameter(instant)],
                deadline: deadline)
            for row in rows { places.insert(Place(stream: part.stream, position: try row.value(at: 0))) }
        }
        return places
    }
}

// MARK: - JSON

extension Erasure.Record {
    /// `{"app":…,"environment":…,"position":…,"erasure":{…}}`, see ``ErasureStatement/write(to:)``.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.member("position", position)
            writer.key("erasure")
            statement.write(to: &writer)
        }
    }

    private init?(json: JSONValue) {
        guard let app = json.string("app"), let name = json.string("environment"),
            let environment = Environment(rawValue: name), let position = json["position"]?.int64,
            let erasure = json["erasure"], let statement = try? ErasureStatement(json: erasure)
        else { return nil }
        self.init(
            stream: StreamKey(app: app, environment: environment), position: position, statement: statement)
    }

    /// Those in a file with a JSON object in each line, without repetitions: by pseudonym, in order of time.
    ///
    /// - Returns: Nil if a line is malformed.
    package static func erasures(inLines bytes: [UInt8]) -> [[Erasure.Record]]? {
        var records: [Erasure.Record] = []
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            guard let document = try? JSONDocument(Array(line)), let record = Erasure.Record(json: document.root) else {
                return nil
            }
            if !records.contains(record) { records.append(record) }
        }
        return Dictionary(grouping: records, by: \.statement.pseudonym).values.sorted { left, right in
            (left[0].statement.at, left[0].statement.pseudonym) < (right[0].statement.at, right[0].statement.pseudonym)
        }
    }
}

extension Erasure.Statements {
    static let records = Statement(
        "erasure_records",
        """
        select stream.app, stream.environment, event.position, event.facts -> 'erasure'
        from subledger.event
        join subledger.stream using (stream_id)
        where event.source = 'operator'
          and event.kind = 'erasure'
        order by event.stream_id, event.position
        """)

    /// The events between the positions `$3` and `$4` that came until `$5`, and whether an erasure lists each: one that replaced
    /// the stores' own ids, if `$6`.
    static let listed = Statement(
        "erasure_listed",
        """
        with done as materialized (
          select event.position, (erased.range ->> 'first')::bigint as first, (erased.range ->> 'last')::bigint as last
          from subledger.event
          join subledger.stream using (stream_id)
          cross join jsonb_array_elements(event.facts #> '{erasure,positions}') as erased (range)
          where stream.app = $1
            and stream.environment = $2
            and event.source = 'operator'
            and event.kind = 'erasure'
            and (not $6 or event.facts #> '{erasure,transactions}' = 'true')
        )
        select event.position, event.facts,
          exists (
            select
            from done
            where event.position < done.position
              and event.position between done.first and done.last
          )
        from subledger.stream
        join subledger.event using (stream_id)
        join unnest($3::bigint[], $4::bigint[]) as listed (first, last)
          on event.position between listed.first and listed.last
        where stream.app = $1
          and stream.environment = $2
          and event.received_at <= $5
          and event.kind <> 'erasure'
        order by event.position
        """)

    static let earlier = Statement(
        "erasure_earlier",
        """
        select position
        from subledger.event
        where stream_id = $1
          and position = any ($2::bigint[])
          and received_at <= $3
        """)
}
