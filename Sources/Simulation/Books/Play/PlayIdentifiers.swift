import Encoding

/// Generates the ids of one subscription or one-time purchase on Google Play. Equal runs generate equal ids.
package struct PlayIdentifiers: Sendable {
    /// The place of a token or an order in a run.
    package struct Place: Sendable, Hashable {
        /// The number of the story.
        package let story: Int
        /// The number of the subscription or one-time purchase in the story.
        package let life: Int
        /// The number of the purchase token.
        package let token: Int
    }

    private let seed: UInt64
    private let line: UInt64
    private let tokenCharacters: Int
    private var tokens: UInt64
    private var messages: UInt64

    /// Above the number of tokens of any line.
    private static let tokensMax: UInt64 = 64
    private static let messagesMax: UInt64 = 512
    private static let partsMax = 16
    /// The largest number of subscriptions and one-time purchases in one story.
    package static let storyLivesMax = 4
    /// The length of Google's tokens.
    package static let tokenCharacters = 144

    /// - Parameters:
    ///   - story: The number of the story in the run, up to 10 million.
    ///   - life: The number of the subscription in the story.
    ///   - part: Of subscriptions and one-time purchases that share a number, and have few tokens each.
    package init(
        seed: UInt64, story: Int, life: Int, part: Int = 0, tokenCharacters: Int = Self.tokenCharacters
    ) {
        precondition(life < Self.storyLivesMax && part < Self.partsMax, "a story has too many subscriptions")
        tokens = UInt64(part) * Self.tokensMax / UInt64(Self.partsMax)
        messages = UInt64(part) * Self.messagesMax / UInt64(Self.partsMax)
        self.seed = seed % 100_000
        line = UInt64(story * Self.storyLivesMax + life)
        self.tokenCharacters = tokenCharacters
    }

    /// A purchase token: 24 lower-case letters, `.AO-J1O`, the place in the run, and letters.
    package mutating func token() -> String {
        precondition(tokens < Self.tokensMax, "a story has too many purchase tokens")
        let number = tokens
        tokens += 1
        var random = SplitMix64(seed: seed, line, number, 77)
        func letters(_ count: Int, _ alphabet: [Character]) -> String {
            String((0..<count).map { _ in alphabet[Int.random(in: alphabet.indices, using: &random)] })
        }
        let lower = Array("abcdefghijklmnop")
        let head = letters(24, lower) + Self.mark + Self.digits(seed, 5) + Self.digits(line, 9) + Self.digits(number, 2)
        let mixed = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        return head + letters(tokenCharacters - head.count, mixed)
    }

    private static let mark = ".AO-J1O"

    /// The place of a token; nil if no run with this seed has it. The rest of the text is not checked.
    package static func place(ofToken token: String, seed: UInt64) -> Place? {
        guard token.utf8.count >= 60, let mark = token.firstRange(of: mark),
            token.distance(from: token.startIndex, to: mark.lowerBound) == 24
        else { return nil }
        return place(token[mark.upperBound...].prefix(16), seed)
    }

    private static func place(_ digits: Substring, _ seed: UInt64) -> Place? {
        guard digits.utf8.count == 16, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let stated = UInt64(digits.prefix(5)), stated == seed % 100_000,
            let line = Int(digits.dropFirst(5).prefix(9)), let token = Int(digits.suffix(2))
        else { return nil }
        return Place(story: line / storyLivesMax, life: line % storyLivesMax, token: token)
    }

    /// The order id of the first payment of the newest token, such as `GPA.3000-0100-0000-00000`.
    package var order: String {
        let digits = Array("3" + Self.digits(seed, 5) + Self.digits(line, 9) + Self.digits(max(tokens, 1) - 1, 2))
        return "GPA.\(String(digits[0..<4]))-\(String(digits[4..<8]))-\(String(digits[8..<12]))-"
            + String(digits[12...])
    }

    /// The place of the token whose payment the order is; nil if no run with this seed has it.
    package static func place(ofOrder order: String, seed: UInt64) -> Place? {
        guard order.hasPrefix("GPA.3") else { return nil }
        let base = order.firstRange(of: "..").map { order[..<$0.lowerBound] } ?? order[...]
        let groups = base.dropFirst(4).split(separator: "-", omittingEmptySubsequences: false)
        guard groups.map(\.utf8.count) == [4, 4, 4, 5] else { return nil }
        return place(Substring(groups.joined().dropFirst()), seed)
    }

    /// 17 digits.
    package mutating func messageId() -> String {
        precondition(messages < Self.messagesMax, "a story has too many messages")
        messages += 1
        return "1" + Self.digits(seed, 5) + Self.digits(line * Self.messagesMax + messages - 1, 11)
    }

    private static func digits(_ number: UInt64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
}
