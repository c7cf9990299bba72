import Encoding
import EventLog
import Postgres
import Subscriptions

/// A subscription that a customer owns or owned.
package struct OwnedSubscription: Sendable {
    /// With all of its access, also that of other owners.
    package let subscription: Subscription
    package internal(set) var intervals: [OwnedInterval]
    /// The positions of all events with facts about it.
    package let positions: Set<Int64>
    /// The app that has it, if it is not the answer's but joined with it.
    package let joinedApp: String?
    /// See ``SubscriptionFacts/voidsOfUnknownOrders``.
    package let voids: [CustomerNotice]
    /// See ``Subscription/endings(of:products:)``.
    package let endings: [Instant: Int64]
}

extension CustomerReader {
    /// A customer with the evidence of its ids.
    package struct Record: Sendable {
        package let identity: Identity
        package let customer: CustomerKey
        /// In byte order of their ids.
        package let subscriptions: [OwnedSubscription]
        package let ties: [Tie]
        /// What events say about the customer besides their facts, with the app if it is not the answer's.
        package let notices: [(notice: CustomerNotice, joinedApp: String?)]
        package let entitlements: [Entitlement]
        /// One query for each part of the customer.
        package let tiesSQL: [ReadableSQL]
    }

    /// What ties an id to the customer.
    package struct Tie: Sendable, Hashable {
        package let kind: String
        package let id: String
        /// The subscription, or the other id of a link.
        package let to: String
        package let position: Int64
        /// The app whose event ties them, if it is not the answer's but joined with it.
        package let joinedApp: String?
    }

    /// The customer to which an id leads at an instant, with its subscriptions, entitlements and ids.
    package func record(_ reference: Reference, at instant: Instant) async throws(ReadError) -> Answer<Record> {
        try await answer(reference, instant) { stored in
            let owned = try await owned(by: stored)
            var ties: [Tie] = []
            var tiesSQL: [ReadableSQL] = []
            var grants: [Entitlement.Grant] = []
            for app in Set(stored.parts.map(\.app)).sorted(by: { $0 == stored.app && $1 != stored.app }) {
                let joinedApp = app == stored.app ? nil : app
                let own = owned.filter { $0.joinedApp == joinedApp }
                grants += Entitlement.grants(
                    of: own.map { $0.subscription.owned(during: $0.intervals.map(\.interval)) },
                    entitlements: try await mapping(app), joinedApp: joinedApp)
                guard let streamId = stored.parts.first(where: { $0.app == app })?.streamId else { continue }
                let ids = own.map(\.subscription.originalTransactionId)
                let link = stored.customer.kind == .link ? stored.customer.id.text : ""
                let customers = Set(stored.parts.map(\.customer)).sorted()
                let (kinds, names) = (customers.map(\.kind.rawValue), customers.map(\.id.text))
                let rows = try await pool.query(
                    Self.ties,
                    [
                        Parameter(streamId), .array(ids), Parameter(link), .array(kinds), .array(names),
                        Parameter(Limits.tiesShownMax),
                    ],
                    deadline: .now + Limits.readWaitMax)
                for row in rows {
                    ties.append(
                        Tie(
                            kind: try row.value(at: 0), id: try row.value(at: 1), to: try row.value(at: 2),
                            position: try row.value(at: 3), joinedApp: joinedApp))
                }
                tiesSQL.append(
                    ReadableSQL(
                        Self.ties,
                        [
                            .number(Int64(streamId)), .texts(ids), .text(link), .texts(kinds), .texts(names),
                            .number(Limits.tiesShownMax),
                        ]))
            }
            return Record(
                identity: stored.identity, customer: stored.customer, subscriptions: owned, ties: ties,
                notices: try await notices(of: stored, owned),
                entitlements: Entitlement.all(of: grants, at: instant), tiesSQL: tiesSQL)
        }
    }

    /// Without the account tokens and backend ids of other customers who own or owned the same subscriptions.
    private static let ties = Statement(
        "customer_record_ties",
        """
        select kind, id, tied_to, position
        from (
          select kind, id, original_transaction_id as tied_to, position
          from subledger.customer_edge
          where stream_id = $1
            and original_transaction_id = any ($2::text[])
          union
          select 'link', backend_customer_id, kind || ' ' || id, position
          from subledger.customer_link
          where stream_id = $1
            and backend_customer_id = $3
            and replaced_position is null
          union
          select 'link', backend_customer_id, kind || ' ' || id, position
          from subledger.customer_link
          where stream_id = $1
            and kind = 'subscription'
            and id = any ($2::text[])
            and replaced_position is null
        ) as tie
        where kind not in ('account', 'link')
          or kind = 'link' and id = $3
          or exists (
            select
            from subledger.customer_identity as identity
            join unnest($4::text[], $5::text[]) as customer (kind, id)
              on customer.kind = identity.customer_kind
              and customer.id = identity.customer_id
            where identity.stream_id = $1
              and identity.kind = tie.kind
              and identity.id = tie.id
          )
        order by position, kind, id collate "C", tied_to collate "C"
        limit $6
        """)
}
