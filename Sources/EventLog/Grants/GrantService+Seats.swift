import Encoding
import Postgres
import Subscriptions

// Seats of a subscription whose members the app invites by itself: who has one is what the backend states.

extension GrantService {
    package enum SeatOutcome: Sendable, Hashable {
        /// The position of the statement in force, and whether it is new.
        case stated(position: Int64, isNew: Bool)
        /// There is no such subscription. Nothing was appended, as in all other cases.
        case unknownSubscription
        /// The subscription has no seats.
        case noSeats
        /// The App Store gives each member of the subscription a transaction of its own.
        case invitedByStore
        /// As many claims stand as there are seats, or more.
        case noSeatFree(seats: Int, claims: Int)
        /// The customer has never claimed a seat.
        case unknownClaim
    }

    /// Gives a seat of a subscription to a customer. Durable when this returns. Safe to repeat: a claim that stands is not
    /// stated again, even if no seat is left for it.
    ///
    /// - Throws: ``ReadError``, ``AppendError``. The customer may lead to the subscription without having a seat.
    package func claimSeat(
        of originalTransactionId: String, for customerId: String, in stream: StreamKey, receivedAt: Instant
    ) async throws -> SeatOutcome {
        let seat = SeatStatement(
            originalTransactionId: originalTransactionId, customerId: customerId, isClaimed: true)
        return try await inTurn(of: seat.link, in: stream) { (_: PlacedLinks) async throws -> SeatOutcome in
            guard let known = try await seats(of: originalTransactionId, in: stream), !known.isUnknown else {
                return .unknownSubscription
            }
            let claims = SeatClaims(of: known)
            if let standing = claims.standing.first(where: { $0.customer.id == seat.customerId }) {
                return .stated(position: standing.position, isNew: false)
            }
            let subscription = Subscription(known)
            guard let number = SeatClaims.seats(of: known, at: receivedAt), subscription.seats != nil else {
                return .noSeats
            }
            if subscription.seatInvitations == SeatStatement.invitedByStore { return .invitedByStore }
            let limit = min(number, Limits.seatClaimsMax)
            guard claims.standing.count < limit else {
                return .noSeatFree(seats: limit, claims: claims.standing.count)
            }
            if !known.seats.keys.contains(where: { $0.customerId == seat.customerId }) {
                _ = try await links.append(seat.link, in: stream, receivedAt: receivedAt).get()
            }
            return try await append(seat, in: stream, after: known, receivedAt)
        }
    }

    /// Takes a seat back from a customer, from now on. Durable when this returns. Safe to repeat.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    package func releaseSeat(
        of originalTransactionId: String, for customerId: String, in stream: StreamKey, receivedAt: Instant
    ) async throws -> SeatOutcome {
        let seat = SeatStatement(
            originalTransactionId: originalTransactionId, customerId: customerId, isClaimed: false)
        return try await inTurn(of: seat.link, in: stream) { (_: PlacedLinks) async throws -> SeatOutcome in
            guard let known = try await seats(of: originalTransactionId, in: stream) else {
                return .unknownSubscription
            }
            guard let last = known.lastSeat(of: seat.customerId) else { return .unknownClaim }
            if !last.isClaimed { return .stated(position: last.position, isNew: false) }
            return try await append(seat, in: stream, after: known, receivedAt)
        }
    }

    /// Of two statements about a customer, the one with the later time counts.
    private func append(
        _ seat: SeatStatement, in stream: StreamKey, after known: SubscriptionFacts, _ receivedAt: Instant
    ) async throws -> SeatOutcome {
        let last = known.lastSeat(of: seat.customerId)?.statedAt
        let receivedAt = max(receivedAt, last?.advanced(byMilliseconds: 1) ?? receivedAt)
        let stated = StatedEvent(
            seat.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt),
            text: seat.canonicalText, stream: stream)
        let appended = try await appender.append(PreparedEvent(stated, receivedAt: receivedAt))
        return .stated(position: appended.position, isNew: appended.isNew)
    }

    /// The facts of a subscription as they are projected, with all that the log has about its seats; nil if it is not known.
    private func seats(
        of originalTransactionId: String, in stream: StreamKey
    ) async throws(ReadError) -> SubscriptionFacts? {
        try await pool.read(
            SeatStatements.subscription,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(originalTransactionId)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard let first = rows.first, let stored = try first.optional(JSONText.self, at: 0) else { return nil }
            guard let json = try? JSONDocument(stored.utf8).root,
                var facts = try? SubscriptionFacts(originalTransactionId: originalTransactionId, json: json)
            else { throw PostgresError(.decoding) }
            for row in rows {
                guard let later = try row.optional(JSONB.self, at: 1) else { continue }
                guard let json = try? JSONDocument(later.utf8).root, let seat = try? SeatStatement(json: json) else {
                    throw PostgresError(.decoding)
                }
                let receivedAt: Instant = try row.value(at: 3)
                facts.fold(
                    Facts(transactions: [], renewals: [], seat: seat), occurredAt: receivedAt, receivedAt: receivedAt,
                    position: try row.value(at: 2))
            }
            return facts
        }
    }

    private enum SeatStatements {
        static let subscription = Statement(
            "grant_seats",
            """
            select subscription.facts, later.seat, later.position, later.received_at
            from subledger.stream
            join subledger.subscription using (stream_id)
            left join subledger.checkpoint using (stream_id)
            left join lateral (
              select event.facts -> 'seat' as seat, event.position, event.received_at
              from subledger.event
              where event.stream_id = stream.stream_id
                and event.position > coalesce(checkpoint.position, 0)
                and event.kind in ('seat_claim', 'seat_release')
                and event.facts #>> '{seat,originalTransactionId}' = $3
            ) as later on true
            where stream.app = $1
              and stream.environment = $2
              and subscription.original_transaction_id = $3
            order by later.position
            """)
    }
}

extension SubscriptionFacts {
    /// Whether no store reported it, or it is part of another one.
    fileprivate var isUnknown: Bool { line != nil || transactions.isEmpty && purchases.isEmpty }

    /// The last statement about a seat of a customer.
    fileprivate func lastSeat(
        of customerId: ByteString
    ) -> (isClaimed: Bool, statedAt: Instant, position: Int64)? {
        let own = seats.filter { $0.key.customerId == customerId }
        return own.max { ($0.key.statedAt, $0.value.position) < ($1.key.statedAt, $1.value.position) }
            .map { ($0.key.isClaimed, $0.key.statedAt, $0.value.position) }
    }
}
