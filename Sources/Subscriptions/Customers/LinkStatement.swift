import Encoding

/// Purchases that a backend links to one of its customers: all that it links, or some in addition.
package struct LinkStatement: Sendable, Hashable {
    /// What a statement rests on. It decides whether its links may take what another customer owns.
    package enum Basis: String, Sendable, Hashable, CaseIterable {
        /// The backend demands that its links count. Statements of releases that did not record a basis, too: they had
        /// been judged before they were appended.
        case transfer
        /// The word of the backend.
        case statement
        /// A purchase that was handed in for the customer, as the store signed it or answers about it.
        case purchase
        /// The id of a purchase, which others can know or guess.
        case id
        /// A seat of the subscription: see ``SeatStatement``. It leads the customer to the subscription and takes nothing.
        case seat

        /// Whether a link takes its key from another customer.
        package func takes(under policy: OwnershipPolicy) -> Bool {
            switch self {
            case .transfer: true
            case .statement, .purchase: policy != .firstBuyer
            case .id, .seat: false
            }
        }
    }

    /// The backend's own id.
    package let backendCustomerId: ByteString
    /// Distinct and sorted, so that equal sets have equal bytes.
    package let links: [CustomerKey]
    /// Whether the customer has no other links: those that are not among ``links`` end.
    package let isComplete: Bool
    package let basis: Basis

    /// Maximum number of links of a statement. A customer can have any number.
    package static let linksMax = 100
    /// Maximum length of an id in bytes.
    package static let idBytesMax = 256

    /// An invalid field of a link request.
    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let field: String
        let problem: String

        package var description: String { "\(field) \(problem)" }
    }

    /// - Parameter links: Keys of any kind except `link`.
    package init(
        backendCustomerId: String, links: some Sequence<CustomerKey>, isComplete: Bool = true,
        basis: Basis = .transfer
    ) {
        self.backendCustomerId = ByteString(backendCustomerId)
        self.links = Set(links).sorted()
        self.isComplete = isComplete
        self.basis = basis
    }

    /// Reads `{"links":[{"originalTransactionId":"…"},{"appAccountToken":"…"},{"appTransactionId":"…"}]}`.
    package init(
        backendCustomerId: String, json: JSONValue, isComplete: Bool, basis: Basis
    ) throws(Malformed) {
        try Self.check(backendCustomerId, "backendCustomerId")
        guard json.isObject, let list = json["links"], list.isArray else {
            throw Malformed(field: "links", problem: "must be an array")
        }
        let elements = list.elements(atMost: Self.linksMax + 1)
        guard elements.count <= Self.linksMax else {
            throw Malformed(field: "links", problem: "must have at most \(Self.linksMax) elements")
        }
        guard isComplete || !elements.isEmpty else {
            throw Malformed(field: "links", problem: "must have at least 1 element")
        }
        var links: [CustomerKey] = []
        for (index, element) in elements.enumerated() { links.append(try Self.link(element, "links[\(index)]")) }
        self.init(backendCustomerId: backendCustomerId, links: links, isComplete: isComplete, basis: basis)
    }

    /// Reads member `transfer` of a request: whether its links may take what another customer owns; false if absent.
    package static func transfer(_ json: JSONValue) throws(Malformed) -> Bool {
        guard let value = json["transfer"] else { return false }
        guard let transfer = value.bool else { throw Malformed(field: "transfer", problem: "must be true or false") }
        return transfer
    }

    /// The field of a request that contains a link, such as `links[1].originalTransactionId`; nil if none does.
    package static func field(of key: CustomerKey, in json: JSONValue) -> String? {
        guard let field = key.kind.linkField else { return nil }
        for (index, element) in (json["links"]?.elements(atMost: linksMax) ?? []).enumerated() {
            guard let id = element[field]?.string, CustomerKey(key.kind, id) == key else { continue }
            return "links[\(index)].\(field)"
        }
        return nil
    }

    private static func link(_ json: JSONValue, _ path: String) throws(Malformed) -> CustomerKey {
        let names = CustomerKey.Kind.allCases.compactMap(\.linkField)
        guard json.isObject, json.members.count == 1,
            let kind = CustomerKey.Kind.allCases.first(where: { $0.linkField.map { json[$0] != nil } ?? false }),
            let field = kind.linkField
        else {
            let list = names.map(\.description).joined(separator: ", ")
            throw Malformed(field: path, problem: "must be an object with one of \(list)")
        }
        guard let id = json[field]?.string else {
            throw Malformed(field: "\(path).\(field)", problem: "must be a string")
        }
        try check(id, "\(path).\(field)")
        if kind == .account, id == CustomerKey.nilAccountToken {
            throw Malformed(field: "\(path).\(field)", problem: "must not be the nil UUID, which identifies no account")
        }
        return CustomerKey(kind, id)
    }

    /// - Parameter field: The name of the field in errors.
    package static func check(_ id: String, _ field: String) throws(Malformed) {
        if id.isEmpty { throw Malformed(field: field, problem: "must not be empty") }
        if id.utf8.contains(0) { throw Malformed(field: field, problem: "must not contain a NUL character") }
        if id.utf8.count > idBytesMax {
            throw Malformed(field: field, problem: "must be at most \(idBytesMax) bytes")
        }
    }
}

// MARK: - JSON

extension LinkStatement {
    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("backendCustomerId", backendCustomerId.text)
            writer.key("links")
            writer.array(links) { writer, link in
                writer.object { writer in
                    if let field = link.kind.linkField { writer.member(field, link.id.text) }
                }
            }
            if !isComplete { writer.member("adds", true) }
            if basis != .transfer { writer.member("basis", basis.rawValue) }
        }
    }

    /// Reads the JSON that ``write(to:)`` writes.
    package init(json: JSONValue) throws(FactsError) {
        guard let backendCustomerId = json["backendCustomerId"]?.string else {
            throw FactsError(member: "link.backendCustomerId")
        }
        let basis = json["basis"].map { $0.string.flatMap(Basis.init(rawValue:)) } ?? .transfer
        guard let basis else { throw FactsError(member: "link.basis") }
        do throws(Malformed) {
            try self.init(
                backendCustomerId: backendCustomerId, json: json, isComplete: json["adds"]?.bool != true, basis: basis)
        } catch {
            throw FactsError(member: "link.links")
        }
    }
}

extension CustomerKey.Kind {
    /// Apple's name of the id in a link; nil if the kind cannot be linked.
    var linkField: StaticString? {
        switch self {
        case .link: nil
        case .account: "appAccountToken"
        case .appTransaction: "appTransactionId"
        case .subscription: "originalTransactionId"
        }
    }
}

// MARK: - Event

extension LinkStatement {
    /// Creates the event to append to the log.
    ///
    /// - Parameter dedupeKey: Must differ when the same set is sent again later.
    package func event(
        environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey
    ) -> Event {
        var event = Event(
            source: .backend, environment: environment, app: app, type: nil, subtype: nil, kind: .link,
            dedupeKey: dedupeKey, occurredAt: receivedAt, transactions: [], renewals: [], defects: [])
        event.link = self
        return event
    }
}
