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
    /// By their texts, those ids that nothing else can be called, wherever they stand. Account ids are in lower case.
    private let unmistakable: [String: String]

    /// - Parameters:
    ///   - stem: Random.
    ///   - keys: Ids of the person. Of subscriptions, those that are purchase tokens.
    ///   - kept: Ids of others that may have the same texts.
    init(stem: String, keys: Set<CustomerKey>, kept: Set<CustomerKey> = []) {
        self.stem = stem
        let width = String(keys.count).count
        let others = Set(kept.map(\.id.text))
        var names: [CustomerKey: String] = [:]
        var unmistakable: [String: String] = [:]
        for (index, key) in keys.sorted().enumerated() {
            let number = String(index + 1)
            let name = stem + "-" + String(repeating: "0", count: width - number.count) + number
            names[key] = name
            let text = key.id.text
            if Self.isUnmistakable(key), !others.contains(text), unmistakable[text] == nil {
                unmistakable[text] = name
            }
        }
        self.names = names
        self.unmistakable = unmistakable
    }

    /// A UUID, one of Apple's long numbers, or a purchase token.
    private static func isUnmistakable(_ key: CustomerKey) -> Bool {
        switch key.kind {
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

    /// All ids with their names, in the order of the ids.
    var all: [(key: CustomerKey, name: String)] { names.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }

    /// The name of an id of the person; nil for every other id.
    func name(of key: CustomerKey) -> String? { names[key] }

    /// A JSON text with the names, and how many ids were replaced. Of what operators wrote about the person, the reason goes
    /// too. Everything else stays byte for byte, but for white space.
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
        func contains(_ body: [UInt8]) -> Bool {
            let text = String(decoding: body, as: UTF8.self)
            let lowered = text.lowercased()
            if wanted.contains(where: { lowered.contains("\"\($0)\"") }) { return true }
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
            if member == "reason", Self.statements.contains(object) {
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
        if let kind = Self.kinds[member] { return names[CustomerKey(kind, text)] }
        return unmistakable[text] ?? unmistakable[text.lowercased()]
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

    /// The objects in which operators and backends say why they ask for something.
    private static let statements: Set<String> = ["grant", "write"]
}
