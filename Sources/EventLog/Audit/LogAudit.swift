import Crypto
import Encoding
import Postgres
import Subscriptions

/// Reads the log as stored, including bodies, for `subledger verify`.
package struct LogAudit: Sendable {
    let connection: PostgresConnection
    package let archive: BodyArchive
    private let pageEventsMax: Int

    /// - Parameters:
    ///   - connection: Must be allowed to read the whole log, as the receiver and projector roles are.
    ///   - archive: Where the bodies of past months are.
    ///   - pageEventsMax: How many events are read at a time.
    package init(
        connection: PostgresConnection, archive: BodyArchive = .none, pageEventsMax: Int = Limits.auditPageEventsMax
    ) {
        self.connection = connection
        self.archive = archive
        self.pageEventsMax = pageEventsMax
    }

    /// Every stream to which a row of the log belongs, in id order.
    package func streams() async throws(PostgresError) -> [AuditedStream] {
        var streams: [AuditedStream] = []
        for found in try await connection.query(Statements.streams, deadline: .now + Limits.auditWaitMax) {
            let id: Int32 = try found.value(at: 0)
            let rows = try await connection.query(
                Statements.stream, [Parameter(id)], deadline: .now + Limits.auditWaitMax)
            let row = rows[0]
            var key: StreamKey?
            if let app = try row.optional(String.self, at: 0),
                let environment = Environment(rawValue: try row.value(at: 1))
            {
                key = StreamKey(app: app, environment: environment)
            }
            streams.append(
                AuditedStream(
                    id: id, key: key, head: try row.optional(at: 2), last: try row.value(at: 3),
                    createdAt: try row.optional(at: 4), headChain: try row.optional(at: 5)))
        }
        return streams
    }

    /// The position of the last of the next events after a position; nil if there is none.
    package func endOfRange(
        of stream: AuditedStream, after position: Int64, eventsMax: Int
    ) async throws(PostgresError) -> Int64? {
        let rows = try await connection.query(
            Statements.endOfRange,
            [Parameter(stream.id), Parameter(position), Parameter(stream.last), Parameter(Int64(eventsMax))],
            deadline: .now + Limits.auditWaitMax)
        return try rows[0].optional(at: 0)
    }

    /// The events after a position, oldest first: as many as the limits of a page allow, and at least one if there is
    /// one.
    ///
    /// - Parameter last: The last position to read.
    package func page(
        of stream: AuditedStream, after position: Int64, through last: Int64
    ) async throws(PostgresError) -> [AuditedEvent] {
        guard position < last else { return [] }
        let events = try await readPage(of: stream, after: position, through: last)
        // A file may have been replaced by an erasure, or restored, since it was looked up.
        guard events.contains(where: \.isFileMissing) else { return events }
        return try await readPage(of: stream, after: position, through: last)
    }

    private func readPage(
        of stream: AuditedStream, after position: Int64, through last: Int64
    ) async throws(PostgresError) -> [AuditedEvent] {
        let parameters = [
            Parameter(stream.id), Parameter(position), Parameter(last),
            Parameter(Int64(pageEventsMax)), Parameter(Int64(Limits.auditPageBytesMax)),
        ]
        // As in `readBodies`: a body in a partition that is made meanwhile is not missing.
        let rows = try await connection.transaction(
            [Step(Statements.page, parameters)], isolation: .readSnapshot, deadline: .now + Limits.auditWaitMax)[0]
        let bodies = try rows.map { row throws(PostgresError) in try row.optional([UInt8].self, at: 8) ?? [] }
        let headers = try await headers(of: bodies, inStream: stream.id)
        var events: [AuditedEvent] = []
        events.reserveCapacity(rows.count)
        var opened: [String: Result<ArchiveFile, DamagedBody>] = [:]
        for (row, body) in zip(rows, bodies) {
            var stored =
                body.isEmpty
                ? nil : AuditedBody(stored: body, digest: try row.value(at: 9), headers: headers)
            var absence = DamagedBody.missing
            var isArchived = false
            if try row.optional([UInt8].self, at: 8) == nil {
                let position: Int64 = try row.value(at: 0)
                var found: (body: ArchiveFile.Body, file: ArchiveFile)?
                if let files = try row.optional(String.self, at: 14) {
                    do throws(DamagedBody) {
                        found = try archive.find(position, in: files, &opened)
                    } catch {
                        absence = error
                    }
                }
                if let (body, file) = found {
                    isArchived = true
                    if !body.stored.isEmpty {
                        stored = AuditedBody(stored: body.stored, digest: try row.value(at: 9), headers: file.headers)
                    }
                }
            }
            if stored == nil, absence == .missing {
                switch try await place(of: try row.value(at: 0), in: stream) {
                case "wrong_time": absence = .wrongTime
                case "erased": absence = .erased
                default: break
                }
            }
            let receivedAt = try row.value(Timestamptz.self, at: 1)
            let times: [(String, Timestamptz?)] = [
                ("received_at", receivedAt), ("occurred_at", try row.optional(at: 2)),
            ]
            events.append(
                AuditedEvent(
                    position: try row.value(at: 0), receivedAt: try row.value(at: 1),
                    brokenTime: times.first { ($0.1?.microsecondsSinceUnixEpoch ?? 0) % 1000 != 0 }?.0,
                    derived: DerivedColumns(
                        occurredAt: try row.optional(at: 2), type: try row.optional(at: 4),
                        subtype: try row.optional(at: 5), kind: try row.value(at: 6),
                        fingerprint: try row.optional(at: 13), facts: try row.value(JSONB.self, at: 15).utf8,
                        defects: try row.optional(JSONB.self, at: 16)?.utf8),
                    chained: ChainedEvent(
                        receivedAt: receivedAt, source: try row.value(at: 3), dedupeKey: try row.value(at: 7),
                        bodyDigest: try row.value(at: 9), chainId: try row.optional(at: 10),
                        revocation: try row.optional(at: 11)),
                    storedBody: stored, absence: absence, isArchived: isArchived, chain: try row.value(at: 12)))
        }
        return events
    }

    /// What function `body_place` says of an event.
    private func place(of position: Int64, in stream: AuditedStream) async throws(PostgresError) -> String? {
        let rows = try await connection.query(
            Statements.place, [Parameter(stream.id), Parameter(position)], deadline: .now + Limits.auditWaitMax)
        return try rows.first?.value(at: 0)
    }

    /// The events of a stream that have no body because an operator erased them, as the statements in the log say.
    ///
    /// Needs no body, since the facts of an erasure are its statement, whose digest the hash chain covers. A statement that does
    /// not match its digest excuses nothing; the verification of the event itself says what is wrong with it.
    ///
    /// - Returns: Each with its position.
    package func erasures(
        of stream: AuditedStream
    ) async throws(PostgresError) -> [(position: Int64, statement: ErasureStatement)] {
        let rows = try await connection.query(
            Statements.erasures, [Parameter(stream.id)], deadline: .now + Limits.auditWaitMax)
        var statements: [(position: Int64, statement: ErasureStatement)] = []
        for row in rows {
            let digest: [UInt8] = try row.value(at: 1)
            guard let json = try? JSONDocument(try row.value(JSONB.self, at: 0).utf8).root,
                let statement = try? ErasureStatement(json: json),
                SHA256.hash(data: statement.canonicalText).elementsEqual(digest)
            else { continue }
            statements.append((try row.value(at: 2), statement))
        }
        return statements
    }

    /// The events after a position as links of the hash chain, oldest first, without their bodies.
    ///
    /// - Parameter last: The last position to read. [the stream's]
    package func links(
        of stream: AuditedStream, after position: Int64, through last: Int64? = nil,
        limit: Int = Limits.auditPageLinksMax
    ) async throws(PostgresError) -> [AuditedLink] {
        try await links(of: stream.id, after: position, until: last ?? stream.last, limit: limit)
    }

    /// - Parameter last: The last position to read.
    func links(
        of stream: Int32, after position: Int64, until last: Int64, limit: Int = Limits.auditPageLinksMax
    ) async throws(PostgresError) -> [AuditedLink] {
        let rows = try await connection.query(
            Statements.links, [Parameter(stream), Parameter(position), Parameter(last), Parameter(Int64(limit))],
            deadline: .now + Limits.auditWaitMax)
        return try rows.map { (row) throws(PostgresError) -> AuditedLink in
            let event = ChainedEvent(
                receivedAt: try row.value(at: 1), source: try row.value(at: 2), dedupeKey: try row.value(at: 3),
                bodyDigest: try row.value(at: 4), chainId: try row.optional(at: 5), revocation: try row.optional(at: 6))
            return AuditedLink(position: try row.value(at: 0), digest: event.digest, chain: try row.value(at: 7))
        }
    }

    /// The recorded results of revocation checks of a chain, oldest first.
    package func verdicts(about chain: [UInt8]) async throws(PostgresError) -> [CertificateVerdict] {
        let rows = try await connection.query(
            Statements.verdicts, [Parameter(chain)], deadline: .now + Limits.auditWaitMax)
        return try rows.map { (row) throws(PostgresError) -> CertificateVerdict in
            CertificateVerdict(decidedAt: try row.value(at: 0), verdict: try row.value(at: 1))
        }
    }

    /// The signed response about a certificate that was in force at an instant: the last one received before it, else the
    /// first one after it. Nil if none was valid then.
    ///
    /// - Parameters:
    ///   - certificate: In DER.
    ///   - tolerance: For clocks, before and after the response's own times.
    package func response(
        about certificate: [UInt8], at instant: Instant, tolerance: Duration
    ) async throws(PostgresError) -> [UInt8]? {
        let milliseconds = Int64(tolerance / .milliseconds(1))
        let rows = try await connection.query(
            Statements.response,
            [
                Parameter(Array(SHA256.hash(data: certificate))), Parameter(instant),
                Parameter(instant.advanced(byMilliseconds: milliseconds)),
                Parameter(instant.advanced(byMilliseconds: -milliseconds)),
            ],
            deadline: .now + Limits.auditWaitMax)
        return rows.count > 0 ? try rows[0].value(at: 0) : nil
    }

    /// The first subscription of a stream whose position is not that of an event about it, as a message; nil if there
    /// is none. A missing event can cause this too, so check for missing events first.
    ///
    /// - Parameter position: Only subscriptions with later positions are looked at.
    package func firstDamagedSubscription(
        of stream: AuditedStream, after position: Int64 = .min
    ) async throws(PostgresError) -> String? {
        let subscriptions = try await connection.query(
            Statements.brokenSubscriptionHeads, [Parameter(stream.id), Parameter(position)],
            deadline: .now + Limits.auditWaitMax)
        guard subscriptions.count > 0 else { return nil }
        let digest = try subscriptions[0].value(String.self, at: 0)
        return "subscription_head \(digest): does not point to an event about the subscription"
    }

    /// The first conflict of a stream that belongs to no event, or whose body does not match its digest, as a message;
    /// nil if there is none.
    package func firstDamagedConflict(of stream: AuditedStream) async throws(PostgresError) -> String? {
        let broken = try await connection.query(
            Statements.brokenConflicts, [Parameter(stream.id)], deadline: .now + Limits.auditWaitMax)
        if broken.count > 0 {
            return "event_conflict \(try broken[0].value(Int64.self, at: 0)): does not belong to an event"
        }
        var (position, digest): (Int64, [UInt8]) = (0, [])
        while true {
            let rows = try await connection.query(
                Statements.conflicts,
                [
                    Parameter(stream.id), Parameter(position), Parameter(digest),
                    Parameter(Int64(Limits.auditPageEventsMax)),
                ], deadline: .now + Limits.auditWaitMax)
            guard rows.count > 0 else { return nil }
            let bodies = try rows.map { row throws(PostgresError) in try row.value([UInt8].self, at: 2) }
            let headers = try await headers(of: bodies, inStream: stream.id)
            for (row, body) in zip(rows, bodies) {
                (position, digest) = (try row.value(at: 0), try row.value(at: 1))
                // An erasure empties both.
                if body.isEmpty, try await place(of: position, in: stream) == "erased" { continue }
                do throws(DamagedBody) {
                    _ = try AuditedBody(stored: body, digest: digest, headers: headers).bytes()
                } catch {
                    return "event_conflict \(position): \(error)"
                }
            }
        }
    }

    /// The files of a stream with bodies that are nowhere else.
    package func archiveFiles(of stream: AuditedStream) async throws(PostgresError) -> [ListedArchive] {
        try await ArchiveRecords(connection: connection).all().filter { $0.streamId == stream.id }
    }

    /// The stored headers that the bodies refer to, by their SHA-256. Missing ones are omitted.
    ///
    /// - Parameter known: Those that are not looked up.
    func headers(
        of bodies: [[UInt8]], inStream streamId: Int32, except known: [[UInt8]: [UInt8]] = [:]
    ) async throws(PostgresError) -> [[UInt8]: [UInt8]] {
        let digests = CompactBody.headers(of: bodies).filter { known[$0] == nil }
        guard !digests.isEmpty else { return [:] }
        let rows = try await connection.query(
            Statements.headers, [Parameter(streamId), .array(Array(digests))], deadline: .now + Limits.auditWaitMax)
        var headers: [[UInt8]: [UInt8]] = [:]
        for row in rows { headers[try row.value(at: 0)] = try row.value([UInt8].self, at: 1) }
        return headers
    }

    /// Until when events may have been stored by an older release; nil if the database was never migrated.
    package func upgradedAt() async throws(PostgresError) -> Instant? {
        let rows = try await connection.query(Statements.upgradedAt, deadline: .now + Limits.auditWaitMax)
        return try rows[0].optional(at: 0)
    }

    /// The first of the events whose stored facts or defects differ from the given ones, with the column; nil if none
    /// differ. Compares the `jsonb` text, which has its own key order and no insignificant white space. Of events that an
    /// older release stored, before the last migration of the schema, some members may be missing.
    ///
    /// - Parameters:
    ///   - facts: JSON texts.
    ///   - defects: JSON texts; nil for an event without defects.
    package func otherFacts(
        _ positions: [Int64], _ facts: [[UInt8]], _ defects: [[UInt8]?], in stream: AuditedStream
    ) async throws(PostgresError) -> [(position: Int64, column: String)] {
        guard !positions.isEmpty else { return [] }
        let upgradedAt = try await connection.query(Statements.upgradedAt, deadline: .now + Limits.auditWaitMax)
        let rows = try await connection.query(
            Statements.otherFacts,
            [
                Parameter(stream.id), .array(positions), .array(facts.map { JSONB(utf8: $0) }),
                .array(defects.map { $0.map { JSONB(utf8: $0) } }),
                Parameter(try upgradedAt[0].optional(Timestamptz.self, at: 0)),
            ], deadline: .now + Limits.auditWaitMax)
        return try rows.map { (row) throws(PostgresError) in (try row.value(at: 0), try row.value(at: 1)) }
    }
}

/// A stream, as recorded in the tables of the log.
package struct AuditedStream: Sendable {
    package let id: Int32
    /// Nil if the stream is not registered in table `stream`.
    package let key: StreamKey?
    /// The last assigned position; nil if none is recorded.
    package let head: Int64?
    /// The position of the last event; 0 if there is none.
    package let last: Int64
    /// Nil if the stream is not registered in table `stream`.
    package let createdAt: Timestamptz?
    /// Value of the hash chain at ``head``, as stored beside it; nil if there is no head.
    package let headChain: [UInt8]?
}
