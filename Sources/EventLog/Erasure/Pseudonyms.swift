import Encoding
import Subscriptions

/// What the ids of a person are called after an erasure.
///
/// The names have the order of the ids, since a fold may depend on which of two ids is the smaller one. So the projections of
/// the renamed facts are the renamed projections.
struct Pseudonyms: Sendable {
    /// The common part of all names.
    let stem: String
    private let names: [CustomerKey: String]
    /// The names of subscriptions, of transactions and order lines of Apple, and of orders of Google by their first one.
    private let storeNames: [String: String]
    /// By their texts, those ids that nothing else can be called, wherever they stand. Account ids are in lower case.
    private let unmistakable: [String: String]

    /// - Parameters:
    ///   - stem: Random.
    ///   - keys: Ids of the person. Of subscriptions, those that are purchase tokens, unless there are transactions.
    ///   - kept: Ids of others that may have the same texts.
    ///   - transactions: The stores' own ids of the person's purchases, if they are replaced.
    init(stem: String, keys: Set<CustomerKey>, kept: Set<CustomerKey> = [], transactions: Set<String> = []) {
        self.stem = stem
        // An id of a subscription is mostly that of its first transaction, too, and has one name as both.
        let ids = Set(transactions.map { CustomerKey(.subscription, PurchaseOrder.base(of: $0)) })
        let all = keys.union(ids)
        let width = String(all.count).count
        let others = Set(kept.map(\.id.text))
        var names: [CustomerKey: String] = [:]
        var storeNames: [String: String] = [:]
        var unmistakable: [String: String] = [:]
        for (index, key) in all.sorted().enumerated() {
            let number = String(index + 1)
            let text = key.id.text
            let isStores = key.kind == .subscription
            let name =
                stem + (isStores && Self.isNumber(text) ? Self.ofApple : "-")
                + String(repeating: "0", count: width - number.count) + number
            if keys.contains(key) { names[key] = name }
            if isStores { storeNames[text] = name }
            if Self.isUnmistakable(key, isTransaction: ids.contains(key)), !others.contains(text),
                unmistakable[text] == nil
            {
                unmistakable[text] = name
            }
        }
        self.names = names
        self.storeNames = storeNames
        self.unmistakable = unmistakable
    }

    /// What the names of Apple's ids have, which are numbers before. The function `analyst.store` knows the store by it.
    private static let ofApple = "-apple-"

    private static func isNumber(_ text: String) -> Bool {
        text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// A UUID, one of Apple's long numbers, a purchase token or an order.
    private static func isUnmistakable(_ key: CustomerKey, isTransaction: Bool) -> Bool {
        if isTransaction, key.id.text.utf8.count >= 12 { return true }
        return switch key.kind {
        case .account, .link: key.id.text.wholeMatch(of: /[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}/) != nil
        case .appTransaction: key.id.text.utf8.count >= 15
        case .subscription: key.id.text.utf8.count >= 20
        }
    }

    /// The common part of all names that are made of random bytes.
    static func stem(of random: [UInt8]) -> String { "erased-" + Hex.text(random) }

    /// The random bytes of which a stem was made; nil if it is none.
    static func random(of stem: String) -> [UInt8]? {
        guard isName(stem) else { return nil }
        let bytes = Array(stem.utf8.dropFirst("erased-".utf8.count)).withUnsafeBufferPointer { Hex.bytes($0) }
        return bytes.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Whether a text is the name that an erasure gave.
    static func isName(_ text: String) -> Bool { text.hasPrefix("erased-") }

    /// The ids of customers and subscriptions with their names, in the order of the ids.
    var all: [(key: CustomerKey, name: String)] { names.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }

    /// How many ids have names.
    var count: Int {
        names.count + storeNames.keys.count { names[CustomerKey(.subscription, $0)] == nil }
    }

    /// The orders, without the number of a renewal.
    var orders: [String] {
        storeNames.keys.filter { !Self.isNumber($0) && names[CustomerKey(.subscription, $0)] == nil }.sorted()
    }

    /// The name of an id of the person; nil for every other id.
    func name(of key: CustomerKey) -> String? { names[key] }

    /// The name of a transaction, an order line or an order of the person; nil for every other one.
    ///
    /// The rest of the text stays: the number of a renewal, and the product of an item of an order or of a purchase that
    /// has several.
    func name(ofTransaction id: String) -> String? {
        var whole = id[...]
        while true {
            let base = PurchaseOrder.base(of: String(whole))
            if let name = storeNames[base] { return name + String(id.dropFirst(base.count)) }
            guard let colon = whole.lastIndex(of: ":") else { return nil }
            whole = whole[..<colon]
        }
    }

    /// A JSON text with the names, and how many ids were replaced. Of what operators wrote about the person, the reason goes
    /// too, with what identifies the request: a key of the sender's choice, and a digest of what was requested. Everything
    /// else stays byte for byte, but for white space.
    ///
    /// - Throws: ``JSONError``.
    func renamed(_ text: [UInt8]) throws -> (text: [UInt8], count: Int) {
        var result: [UInt8] = []
        result.reserveCapacity(text.count)
        let count = write(try JSONDocument(text).root, under: "", in: "", to: &result)
        return (result, count)
    }

    /// Whether a body contains one of the ids, or one of the subscriptions, also in signed texts inside of it.
    func areIn(_ body: [UInt8], orAnyOf subscriptions: some Sequence<String>) -> Bool {
        let wanted = Set(names.keys.map { $0.id.text.lowercased() }).union(subscriptions.map { $0.lowercased() })
            .union(storeNames.keys.map { $0.lowercased() })
        let renewals = orders.map { "\"\($0.lowercased()).." }
        func contains(_ body: [UInt8]) -> Bool {
            let text = String(decoding: body, as: UTF8.self)
            let lowered = text.lowercased()
            if wanted.contains(where: { lowered.contains("\"\($0)\"") }) { return true }
            if renewals.contains(where: { lowered.contains($0) }) { return true }
            return text.matches(of: /[A-Za-z0-9_\-]+\.([A-Za-z0-9_\-]+)\.[A-Za-z0-9_\-]*/).contains { match in
                Base64.decode(Array(match.output.1.utf8)[...], .url).map(contains) ?? false
            }
        }
        return contains(body)
    }

    /// - Parameters:
    ///   - member: The name of the member whose value it is, or of the array that it is in.
    ///   - object: The name of the member whose value contains that.
    /// - Returns: How many ids were replaced.
    private func write(
        _ value: JSONValue, under member: String, in object: String, to result: inout [UInt8]
    ) -> Int {
        var count = 0
        if value.isObject {
            result.append(UInt8(ascii: "{"))
            for (index, entry) in value.members.enumerated() {
                if index > 0 { result.append(UInt8(ascii: ",")) }
                Self.quote(entry.key.bytes, to: &result)
                result.append(UInt8(ascii: ":"))
                count += write(entry.value, under: entry.key.string ?? "", in: member, to: &result)
            }
            result.append(UInt8(ascii: "}"))
        } else if value.isArray {
            result.append(UInt8(ascii: "["))
            for (index, element) in value.elements.enumerated() {
                if index > 0 { result.append(UInt8(ascii: ",")) }
                count += write(element, under: member, in: object, to: &result)
            }
            result.append(UInt8(ascii: "]"))
        } else if value.isString {
            if Self.stated.contains(member), Self.statements.contains(object) {
                Self.quote(Array("erased".utf8), to: &result)
            } else if let name = value.string.flatMap({ name(of: $0, under: member) }) {
                Self.quote(Array(name.utf8), to: &result)
                count += 1
            } else {
                Self.quote(value.bytes, to: &result)
            }
        } else if let flag = value.bool {
            result += Array((flag ? "true" : "false").utf8)
        } else {
            result += Array((value.numberText ?? "null").utf8)
        }
        return count
    }

    private static func quote(_ content: [UInt8], to result: inout [UInt8]) {
        result.append(UInt8(ascii: "\""))
        result += content
        result.append(UInt8(ascii: "\""))
    }

    /// What a text says under a member tells what it is; elsewhere, only a text that is nothing else is an id.
    private func name(of text: String, under member: String) -> String? {
        if let kind = Self.kinds[member] {
            return names[CustomerKey(kind, text)] ?? (kind == .subscription ? storeNames[text] : nil)
        }
        if Self.storeMembers.contains(member) { return name(ofTransaction: text) }
        if let name = unmistakable[text] ?? unmistakable[text.lowercased()] { return name }
        let base = PurchaseOrder.base(of: text)
        return base == text ? nil : unmistakable[base].map { $0 + String(text.dropFirst(base.count)) }
    }

    /// The stores' own ids in what a JSON text says about some subscriptions.
    static func transactions(
        in value: JSONValue, of subscriptions: Set<String>, isAbout: Bool = false
    ) -> Set<String> {
        let named = [value.string("originalTransactionId"), value.string("purchaseToken")]
        let isAbout = isAbout || named.contains { $0.map(subscriptions.contains) ?? false }
        var ids: Set<String> = []
        for (key, value) in value.members {
            if isAbout, let member = key.string, storeMembers.contains(member), let id = value.string, !id.isEmpty,
                !isName(id)
            {
                ids.insert(id)
            }
            ids.formUnion(transactions(in: value, of: subscriptions, isAbout: isAbout))
        }
        for element in value.elements {
            ids.formUnion(transactions(in: element, of: subscriptions, isAbout: isAbout))
        }
        return ids
    }

    /// The ids of customers and the purchase tokens in a JSON text.
    static func keys(in value: JSONValue) -> Set<CustomerKey> {
        var keys: Set<CustomerKey> = []
        for (key, value) in value.members {
            if let kind = key.string.flatMap({ kinds[$0] }), let text = value.string, !text.isEmpty {
                keys.insert(CustomerKey(kind, text))
            }
            keys.formUnion(self.keys(in: value))
        }
        for element in value.elements { keys.formUnion(self.keys(in: element)) }
        return keys
    }

    /// The members of facts whose values are ids of customers.
    private static let kinds: [String: CustomerKey.Kind] = [
        "appAccountToken": .account, "obfuscatedAccountId": .account, "obfuscatedProfileId": .account,
        "obfuscatedExternalAccountId": .account, "obfuscatedExternalProfileId": .account, "externalAccountId": .account,
        "expiredAccountId": .account, "appTransactionId": .appTransaction, "backendCustomerId": .link,
        "customerId": .link, "purchaseToken": .subscription, "linkedPurchaseToken": .subscription,
        "expiredPurchaseToken": .subscription, "originalTransactionId": .subscription,
    ]

    /// The members of facts whose values are the stores' own ids: of transactions, order lines and orders, and in earlier
    /// erasures of subscriptions.
    private static let storeMembers: Set<String> = [
        "transactionId", "webOrderLineItemId", "previousOriginalTransactionId", "orderId", "subscriptions",
    ]

    /// What operators and backends say by themselves when they ask for something.
    private static let stated: Set<String> = ["reason", "idempotencyKey", "requestDigest"]

    /// The objects in which operators and backends say why they ask for something.
    private static let statements: Set<String> = ["grant", "write"]
}
