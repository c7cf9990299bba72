import Encoding

/// All facts that were ever reported about one subscription: a set that only grows.
///
/// Because it is a set, neither the order of reports nor their repetition matters. ``Subscription`` is computed from
/// the whole set.
package struct SubscriptionFacts: Sendable, Hashable {
    package let originalTransactionId: String
    package private(set) var transactions: [Canonical<Transaction>: Statement] = [:]
    package private(set) var renewals: [StatedRenewal: Provenance] = [:]
    /// The times at which the Apple Account was reported as deleted.
    package private(set) var accountDeletions: [Instant: Provenance] = [:]
    /// The times at which the data of the person whose subscription it was has been erased.
    package internal(set) var erasures: [Instant: Provenance] = [:]
    /// What Google reported about the purchases of the subscription.
    package internal(set) var purchases: [StatedPurchase: Provenance] = [:]
    /// What the backend stated about seats of the subscription.
    package private(set) var seats: [StatedSeat: Provenance] = [:]
    /// Set for a purchase that continues another one: the facts are those of the subscription named here.
    package internal(set) var line: Line?
    /// The positions of all events with facts about the subscription.
    package internal(set) var positions: Set<Int64> = []
    /// The smallest subscription id of each notification that contained several subscriptions, this one among them,
    /// with the position of the first such event.
    package private(set) var companions: [ByteString: Int64] = [:]

    /// When a transaction was reported, and by which event.
    package struct Statement: Sendable, Hashable {
        /// The latest time of a report, by Apple's clock if it is known.
        package var statedAt: Instant
        /// When the report with that time was last received.
        package var receivedAt: Instant
        /// The earliest time of a report.
        package fileprivate(set) var firstStatedAt: Instant
        /// The position of the event with the earliest report, which is the evidence: the order of arrival only decides
        /// between reports of the same time.
        package var position: Int64
        /// True if `statedAt` was signed by Apple; false if it is an estimate from the dates of the body.
        package var isSigned: Bool
        /// The times of other unsigned reports, of those that no other report is later than in both times, by `statedAt`.
        package fileprivate(set) var others: [Times] = []

        init(statedAt: Instant, receivedAt: Instant, position: Int64, isSigned: Bool) {
            self.statedAt = statedAt
            firstStatedAt = statedAt
            self.receivedAt = receivedAt
            self.position = position
            self.isSigned = isSigned
        }

        /// The times of one report.
        package struct Times: Sendable, Hashable {
            package let statedAt: Instant
            package let receivedAt: Instant
        }
    }

    package struct StatedRenewal: Sendable, Hashable {
        package let renewal: Canonical<RenewalInfo>
        package let statedAt: Instant
        package let isSigned: Bool
    }

    /// A fact about a purchase at a time. Equal answers at two times are two facts: what was between them counts.
    package struct StatedPurchase: Sendable, Hashable {
        package let purchase: Canonical<PurchaseFact>
        package let statedAt: Instant
    }

    /// A seat that a customer of the backend has from a time on, or has no longer.
    package struct StatedSeat: Sendable, Hashable {
        /// The backend's own id of the customer.
        package let customerId: ByteString
        package let isClaimed: Bool
        package let statedAt: Instant
    }

    /// The subscription that a purchase belongs to, which is named after its first purchase.
    package struct Line: Sendable, Hashable {
        package let originalTransactionId: String
        /// The position of the event by which that became known.
        package let position: Int64
    }

    /// A fact that equals another one if their texts have the same bytes. Swift's strings are equal if they are
    /// canonically equivalent, so which spelling was kept would depend on the order of arrival.
    package struct Canonical<Fact: Sendable>: Sendable, Hashable {
        package let boxed: Boxed<Fact>
        package let text: [UInt8]
        /// The hash of the text, stored because facts are looked up more often than they are created.
        private let textHash: Int

        package var fact: Fact {
            _read { yield boxed.value }
        }

        /// - Parameter text: The canonical JSON of the fact.
        init(_ fact: consuming Fact, text: [UInt8]) {
            boxed = Boxed(fact)
            self.text = text
            // Hashing the array itself would hash byte by byte.
            textHash = text.withUnsafeBytes { bytes in
                var hasher = Hasher()
                hasher.combine(bytes: bytes)
                return hasher.finalize()
            }
        }

        package static func == (left: Canonical, right: Canonical) -> Bool {
            left.textHash == right.textHash && left.text == right.text
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(textHash)
        }
    }

    /// Where a fact comes from, which may be reported often.
    package struct Provenance: Sendable, Hashable {
        /// When it was last received: of unsigned reports with equal times, the one received last takes precedence.
        package var receivedAt: Instant
        /// The position of the first event that reported it.
        package var position: Int64

        init(receivedAt: Instant, position: Int64) {
            self.receivedAt = receivedAt
            self.position = position
        }

        /// That of a fact that was reported once more.
        init(_ known: Provenance?, receivedAt: Instant, position: Int64) {
            self.receivedAt = max(known?.receivedAt ?? receivedAt, receivedAt)
            self.position = min(known?.position ?? position, position)
        }
    }

    package struct RenewalStatement: Sendable, Hashable {
        let boxed: Boxed<RenewalInfo>
        package let statedAt: Instant
        /// True if Apple signed it. Unsigned ones come from receipts, which contain fewer fields.
        package let isSigned: Bool
        package let position: Int64
        /// Whether the subscription goes on after what the customer is committed to: ``RenewalInfo/autoRenewStatus``, or
        /// false with a commitment that is not renewed. Nil if the report does not say it.
        package let isRenewing: Bool?
        /// The end of the commitment with which the subscription ends, ``Instant/latest`` if it is not stated; nil if there is
        /// none.
        let commitmentEnd: Instant?

        init(
            boxed: Boxed<RenewalInfo>, statedAt: Instant, isSigned: Bool, position: Int64,
            commitmentEnd: Instant? = nil
        ) {
            self.boxed = boxed
            self.statedAt = statedAt
            self.isSigned = isSigned
            self.position = position
            self.commitmentEnd = commitmentEnd
            isRenewing = commitmentEnd == nil ? boxed.value.autoRenewStatus : false
        }

        package var renewal: RenewalInfo {
            _read { yield boxed.value }
        }

        /// True if the subscription ends with its commitment, until which its months are charged.
        package var endsWithCommitment: Bool { isRenewing == false && renewal.autoRenewStatus != false }
    }

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
    }

    /// Adds the facts about this subscription and ignores those about others.
    ///
    /// - Parameter occurredAt: The time of the event, used for facts without a signing time. If it is nil, `receivedAt`
    ///   is used instead.
    /// - Parameter companion: The event's ``Facts/companion``.
    package mutating func fold(
        _ facts: Facts, occurredAt: Instant?, receivedAt: Instant, position: Int64, companion: String? = nil
    ) {
        fold(
            StatedFacts(facts, about: originalTransactionId), occurredAt: occurredAt, receivedAt: receivedAt,
            position: position, companion: companion)
    }

    /// Adds facts that are all about this subscription. See ``fold(_:occurredAt:receivedAt:position:companion:)``.
    package mutating func fold(
        _ facts: StatedFacts, occurredAt: Instant?, receivedAt: Instant, position: Int64, companion: String? = nil
    ) {
        guard !facts.isEmpty else { return }
        let statedAt = occurredAt ?? receivedAt
        for stated in facts.transactions {
            merge(
                stated.fact,
                Statement(
                    statedAt: stated.signedDate ?? statedAt, receivedAt: receivedAt, position: position,
                    isSigned: stated.signedDate != nil))
        }
        for stated in facts.renewals {
            let renewal = StatedRenewal(
                renewal: stated.fact, statedAt: stated.signedDate ?? statedAt, isSigned: stated.signedDate != nil)
            renewals[renewal] = Provenance(renewals[renewal], receivedAt: receivedAt, position: position)
        }
        if facts.isAccountDeleted {
            accountDeletions[statedAt] = Provenance(
                accountDeletions[statedAt], receivedAt: receivedAt, position: position)
        }
        if facts.isErased {
            erasures[statedAt] = Provenance(erasures[statedAt], receivedAt: receivedAt, position: position)
        }
        for stated in facts.purchases {
            let purchase = StatedPurchase(purchase: stated.fact, statedAt: statedAt)
            purchases[purchase] = Provenance(purchases[purchase], receivedAt: receivedAt, position: position)
        }
        if let stated = facts.seat {
            let seat = StatedSeat(customerId: stated.customerId, isClaimed: stated.isClaimed, statedAt: statedAt)
            seats[seat] = Provenance(seats[seat], receivedAt: receivedAt, position: position)
        }
        positions.insert(position)
        if let companion = companion.map(ByteString.init) {
            companions[companion] = min(companions[companion] ?? position, position)
        }
    }

    private mutating func merge(_ transaction: Canonical<Transaction>, _ statement: Statement) {
        transactions[transaction] = Statement(statement, repeating: transactions[transaction])
    }

    /// Adds reports that were made about transactions, under this subscription or another one.
    ///
    /// - Parameter position: Of the event with the last one.
    mutating func add(_ reports: Reports, position: Int64) {
        for (fact, statement) in reports {
            merge(fact, statement)
            positions.insert(statement.position)
        }
        positions.insert(position)
    }

    /// The same facts with only some of the transactions, by id, and only some of the renewal info, by its time.
    func keeping(_ isKept: (String) -> Bool, renewals isRenewalKept: (Instant) -> Bool) -> SubscriptionFacts {
        var kept = self
        kept.transactions = transactions.filter { isKept($0.key.fact.transactionId) }
        kept.renewals = renewals.filter { isRenewalKept($0.key.statedAt) }
        return kept
    }
}

// MARK: - JSON

extension SubscriptionFacts {
    /// An estimate of the length of the canonical text, so that writing it does not reallocate.
    package var textBytesExpected: Int {
        var bytes = 128 + 64 * companions.count + 12 * positions.count
        for fact in transactions.keys { bytes += fact.text.count + 160 }
        for stated in renewals.keys { bytes += stated.renewal.text.count + 160 }
        bytes += 128 * (accountDeletions.count + erasures.count + 2 * seats.count)
        for stated in purchases.keys { bytes += stated.purchase.text.count + 160 }
        return bytes
    }

    /// Writes the canonical JSON: equal sets have equal bytes.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("transactions")
            writer.array(transactionsInOrder) { writer, entry in
                writer.object { writer in
                    writer.key("fact")
                    writer.value(rawJSON: entry.key.text)
                    writer.member("statedAt", entry.value.statedAt)
                    writer.member("signed", entry.value.isSigned ? true : nil)
                    writer.member("receivedAt", entry.value.receivedAt)
                    writer.member("position", entry.value.position)
                    if entry.value.firstStatedAt != entry.value.statedAt {
                        writer.member("firstStatedAt", entry.value.firstStatedAt)
                    }
                    guard !entry.value.others.isEmpty else { return }
                    writer.key("others")
                    writer.array(entry.value.others) { writer, times in
                        writer.object { writer in
                            writer.member("statedAt", times.statedAt)
                            writer.member("receivedAt", times.receivedAt)
                        }
                    }
                }
            }
            writer.key("renewals")
            writer.array(renewalsInOrder) { writer, entry in
                writer.object { writer in
                    writer.key("fact")
                    writer.value(rawJSON: entry.key.renewal.text)
                    writer.member("statedAt", entry.key.statedAt)
                    writer.member("signed", entry.key.isSigned ? true : nil)
                    writer.member("receivedAt", entry.value.receivedAt)
                    writer.member("position", entry.value.position)
                }
            }
            Self.write("accountDeletions", accountDeletions, to: &writer)
            Self.write("erasures", erasures, to: &writer)
            if !purchases.isEmpty {
                writer.key("purchases")
                writer.array(purchasesInOrder) { writer, entry in
                    writer.object { writer in
                        writer.key("fact")
                        writer.value(rawJSON: entry.key.purchase.text)
                        writer.member("statedAt", entry.key.statedAt)
                        writer.member("receivedAt", entry.value.receivedAt)
                        writer.member("position", entry.value.position)
                    }
                }
            }
            if !seats.isEmpty {
                writer.key("seats")
                writer.array(seatsInOrder) { writer, entry in
                    writer.object { writer in
                        writer.member("customerId", entry.key.customerId.text)
                        writer.member("claimed", entry.key.isClaimed)
                        writer.member("statedAt", entry.key.statedAt)
                        writer.member("receivedAt", entry.value.receivedAt)
                        writer.member("position", entry.value.position)
                    }
                }
            }
            if let line {
                writer.key("line")
                writer.object { writer in
                    writer.member("originalTransactionId", line.originalTransactionId)
                    writer.member("position", line.position)
                }
            }
            if !companions.isEmpty {
                writer.key("companions")
                writer.array(companions.sorted { $0.key < $1.key }) { writer, entry in
                    writer.object { writer in
                        writer.member("originalTransactionId", entry.key.text)
                        writer.member("position", entry.value)
                    }
                }
            }
            if !positions.isEmpty {
                writer.key("events")
                writer.array(positions.sorted()) { $0.value($1) }
            }
        }
    }

    private static func write(_ key: StaticString, _ times: [Instant: Provenance], to writer: inout JSONWriter) {
        guard !times.isEmpty else { return }
        writer.key(key)
        writer.array(times.sorted { $0.key < $1.key }) { writer, entry in
            writer.object { writer in
                writer.member("statedAt", entry.key)
                writer.member("receivedAt", entry.value.receivedAt)
                writer.member("position", entry.value.position)
            }
        }
    }

    private static func times(_ json: JSONValue?) throws(FactsError) -> [Instant: Provenance] {
        var times: [Instant: Provenance] = [:]
        for element in json?.elements ?? [] {
            let statement = try Statement(json: element)
            times[statement.statedAt] = Provenance(receivedAt: statement.receivedAt, position: statement.position)
        }
        return times
    }

    /// Reads the JSON that ``write(to:)`` wrote, which must be unchanged byte for byte.
    package init(originalTransactionId: String, json: JSONValue) throws(FactsError) {
        self.init(originalTransactionId: originalTransactionId)
        for element in try json.requiredElements("transactions") {
            let fact = try element.requiredFact()
            transactions[Canonical(try Transaction(json: fact), text: fact.bytes)] = try Statement(json: element)
        }
        for element in try json.requiredElements("renewals") {
            let statement = try Statement(json: element)
            let fact = try element.requiredFact()
            let stated = StatedRenewal(
                renewal: Canonical(try RenewalInfo(json: fact), text: fact.bytes), statedAt: statement.statedAt,
                isSigned: statement.isSigned)
            renewals[stated] = Provenance(receivedAt: statement.receivedAt, position: statement.position)
        }
        accountDeletions = try Self.times(json["accountDeletions"])
        erasures = try Self.times(json["erasures"])
        for element in json["purchases"]?.elements ?? [] {
            let statement = try Statement(json: element)
            let fact = try element.requiredFact()
            let stated = StatedPurchase(
                purchase: Canonical(try PurchaseFact(json: fact), text: fact.bytes), statedAt: statement.statedAt)
            purchases[stated] = Provenance(receivedAt: statement.receivedAt, position: statement.position)
        }
        for element in json["seats"]?.elements ?? [] {
            let statement = try Statement(json: element)
            guard let isClaimed = element["claimed"]?.bool else { throw FactsError(member: "seats") }
            let seat = StatedSeat(
                customerId: ByteString(try element.required("customerId")), isClaimed: isClaimed,
                statedAt: statement.statedAt)
            seats[seat] = Provenance(receivedAt: statement.receivedAt, position: statement.position)
        }
        if let json = json["line"] {
            guard let position = json["position"]?.int64 else { throw FactsError(member: "line") }
            line = Line(originalTransactionId: try json.required("originalTransactionId"), position: position)
        }
        for element in json["companions"]?.elements ?? [] {
            guard let position = element["position"]?.int64 else { throw FactsError(member: "companions") }
            companions[ByteString(try element.required("originalTransactionId"))] = position
        }
        positions = Set(json["events"]?.elements.compactMap(\.int64) ?? [])
    }
}

extension SubscriptionFacts.Statement {
    /// The statement of a fact that was reported before: it keeps its latest time, so that it takes precedence over older
    /// facts, and its first position.
    init(_ statement: Self, repeating known: Self?) {
        self = known?.repeated(by: statement) ?? statement
    }

    fileprivate func isEarlier(than other: Self) -> Bool {
        (statedAt, isSigned ? 1 : 0, receivedAt) < (other.statedAt, other.isSigned ? 1 : 0, other.receivedAt)
    }

    /// The statement of a fact that was reported once more.
    fileprivate func repeated(by other: Self) -> Self {
        let (earlier, later) = isEarlier(than: other) ? (self, other) : (other, self)
        var latest = later
        let first = (firstStatedAt, position) < (other.firstStatedAt, other.position) ? self : other
        (latest.firstStatedAt, latest.position) = (first.firstStatedAt, first.position)
        let isCovered = earlier.isSigned || later.times.covers(earlier.times)
        if isCovered, earlier.others.isEmpty, later.others.isEmpty { return latest }
        var candidates = Set(earlier.others + later.others + [later.times])
        if !earlier.isSigned { candidates.insert(earlier.times) }
        latest.others = candidates.filter { times in
            times != later.times && !candidates.contains { $0 != times && $0.covers(times) }
        }.sorted { $0.statedAt < $1.statedAt }
        return latest
    }

    private var times: Times { Times(statedAt: statedAt, receivedAt: receivedAt) }

    fileprivate init(json: JSONValue) throws(FactsError) {
        guard let statedAt = try json.instant("statedAt") else { throw FactsError(member: "statedAt") }
        guard let receivedAt = try json.instant("receivedAt") else { throw FactsError(member: "receivedAt") }
        guard let position = json["position"]?.int64 else { throw FactsError(member: "position") }
        self.init(
            statedAt: statedAt, receivedAt: receivedAt, position: position, isSigned: json["signed"]?.bool ?? false)
        firstStatedAt = try json.instant("firstStatedAt") ?? statedAt
        for element in json["others"]?.elements ?? [] {
            guard let statedAt = try element.instant("statedAt"), let receivedAt = try element.instant("receivedAt")
            else { throw FactsError(member: "others") }
            others.append(Times(statedAt: statedAt, receivedAt: receivedAt))
        }
    }
}

extension SubscriptionFacts.Statement.Times {
    /// True if this report is at least as late as the other one in both times.
    fileprivate func covers(_ other: Self) -> Bool { statedAt >= other.statedAt && receivedAt >= other.receivedAt }
}

extension JSONValue {
    fileprivate func requiredFact() throws(FactsError) -> JSONValue {
        guard let fact = self["fact"] else { throw FactsError(member: "fact") }
        return fact
    }
}
