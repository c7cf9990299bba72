import Crypto
import Encoding
import Subscriptions

/// Makes receipts whose bytes look random and that only a simulated store with the same seed can read.
package struct ReceiptSeal: Sendable {
    /// What a receipt is about.
    package struct Contents: Sendable, Hashable {
        package var account: SimulatedAccount.Key
        package var style: ReceiptStyle
        package var environment: Subscriptions.Environment
        package var createdAt: Instant
        /// The first eight bytes of the SHA-256 of the app's bundle id.
        package var app: UInt64

        package init(
            account: SimulatedAccount.Key, style: ReceiptStyle, app: SimulatedApp, createdAt: Instant
        ) {
            self.account = account
            self.style = style
            self.environment = app.environment
            self.createdAt = createdAt
            self.app = Self.mark(ofApp: app.bundleId)
        }

        package static func mark(ofApp bundleId: String) -> UInt64 {
            SHA256.hash(data: Array(bundleId.utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    package enum Opened: Sendable, Hashable {
        case contents(Contents)
        /// Not in the form of a receipt.
        case malformed
        /// Sealed by another store, or changed since.
        case altered
    }

    private let key: SymmetricKey

    package init(seed: UInt64) {
        key = SymmetricKey(data: SHA256.hash(data: Array("Subledger simulated receipts \(seed)".utf8)))
    }

    private static let contentBytes = 22
    private static let nonceBytes = 12
    private static let tagBytes = 16
    private static let opaqueBytesMin = nonceBytes + contentBytes

    /// Returns the receipt, the same each time for equal contents.
    ///
    /// - Parameter bytes: The length of the receipt. A shorter one than possible is made as short as possible; a
    ///   transaction receipt has its own length.
    package func receipt(_ contents: Contents, bytes: Int) -> [UInt8] {
        let plain = Self.encode(contents)
        let nonce = Array(code("nonce", plain).prefix(Self.nonceBytes))
        let masked = mask(plain, nonce)
        switch contents.style {
        case .app:
            let count = max(bytes - 4 - Self.tagBytes, Self.opaqueBytesMin)
            let opaque = Self.fill(nonce + masked, to: count)
            let content = opaque.count + Self.tagBytes
            // A DER sequence, as the PKCS#7 container of an app receipt is.
            var receipt: [UInt8] = [0x30]
            receipt +=
                content < 1 << 16
                ? [0x82, UInt8(content >> 8), UInt8(content & 0xFF)]
                : [0x83, UInt8(content >> 16 & 0xFF), UInt8(content >> 8 & 0xFF), UInt8(content & 0xFF)]
            receipt += opaque
            return receipt + tag(receipt)
        case .transaction:
            let opaque = Self.fill(nonce + masked, to: Self.transactionBytes)
            let head = Self.head(opaque, contents.environment)
            return head + Self.base64(tag(head)) + Self.tail
        }
    }

    /// Returns the receipt of an Apple Account, as long as the app's settings say.
    package func receipt(
        of account: SimulatedAccount.Key, style: ReceiptStyle = .app, app: SimulatedApp, createdAt: Instant
    ) -> [UInt8] {
        receipt(
            Contents(account: account, style: style, app: app, createdAt: createdAt),
            bytes: app.receiptCharacters / 4 * 3)
    }

    package func open(_ receipt: [UInt8]) -> Opened {
        guard let first = receipt.first else { return .malformed }
        return switch first {
        case 0x30: openApp(receipt)
        case UInt8(ascii: "{"): openTransaction(receipt)
        default: .malformed
        }
    }
}

/// The two forms of receipts.
package enum ReceiptStyle: UInt8, Sendable, Hashable {
    /// PKCS#7 with all purchases of the Apple Account, since iOS 7.
    case app
    /// A property list with one transaction.
    case transaction
}

// MARK: - App receipts

extension ReceiptSeal {
    private func openApp(_ receipt: [UInt8]) -> Opened {
        guard receipt.count > 5 else { return .malformed }
        let lengthBytes: Int
        switch receipt[1] {
        case 0x82: lengthBytes = 2
        case 0x83: lengthBytes = 3
        default: return .malformed
        }
        let start = 2 + lengthBytes
        let length = receipt[2..<start].reduce(0) { $0 << 8 | Int($1) }
        guard receipt.count == start + length, length >= Self.opaqueBytesMin + Self.tagBytes else {
            return .malformed
        }
        let sealed = Array(receipt.dropLast(Self.tagBytes))
        guard Array(receipt.suffix(Self.tagBytes)) == tag(sealed) else { return .altered }
        return contents(Array(sealed[start...]), .app)
    }
}

// MARK: - Transaction receipts

extension ReceiptSeal {
    /// The length of the opaque part.
    private static let transactionBytes = 660
    private static let purchaseInfo = Array("{\n\t\"purchase-info\" = \"".utf8)
    private static let tail = Array("\";\n}".utf8)

    private static func head(_ opaque: [UInt8], _ environment: Subscriptions.Environment) -> [UInt8] {
        let name = environment == .production ? "Production" : "Sandbox"
        let members = """
            ";
            \t"environment" = "\(name)";
            \t"pod" = "100";
            \t"signing-status" = "0";
            \t"signature" = "
            """
        return purchaseInfo + base64(opaque) + Array(members.utf8)
    }

    private func openTransaction(_ receipt: [UInt8]) -> Opened {
        let signatureCount = Self.base64(Array(repeating: 0, count: Self.tagBytes)).count
        guard receipt.starts(with: Self.purchaseInfo), receipt.suffix(Self.tail.count) == Self.tail[...],
            receipt.count > Self.purchaseInfo.count + signatureCount + Self.tail.count
        else { return .malformed }
        let head = Array(receipt.dropLast(Self.tail.count + signatureCount))
        let signature = Array(receipt.dropLast(Self.tail.count).suffix(signatureCount))
        guard signature == Self.base64(tag(head)) else { return .altered }
        let opaque = head[Self.purchaseInfo.count...].prefix { $0 != UInt8(ascii: "\"") }
        guard let bytes = Base64.decode(opaque, .standard), bytes.count >= Self.opaqueBytesMin else {
            return .malformed
        }
        return contents(bytes, .transaction)
    }

    private static func base64(_ bytes: [UInt8]) -> [UInt8] { Array(Base64.text(bytes).utf8) }
}

// MARK: - The opaque part

extension ReceiptSeal {
    private func contents(_ opaque: [UInt8], _ style: ReceiptStyle) -> Opened {
        let nonce = Array(opaque.prefix(Self.nonceBytes))
        let masked = Array(opaque[Self.nonceBytes..<Self.opaqueBytesMin])
        guard let contents = Self.decode(mask(masked, nonce)), contents.style == style else { return .altered }
        return .contents(contents)
    }

    private static func encode(_ contents: Contents) -> [UInt8] {
        var plain = bigEndian(UInt32(contents.account.story))
        plain.append(UInt8(contents.account.number))
        let environment: UInt8 = contents.environment == .production ? 1 : 0
        plain.append(contents.style.rawValue << 1 | environment)
        plain += bigEndian(contents.createdAt.milliseconds)
        plain += bigEndian(contents.app)
        return plain
    }

    private static func decode(_ plain: [UInt8]) -> Contents? {
        func number(_ range: Range<Int>) -> UInt64 { plain[range].reduce(0) { $0 << 8 | UInt64($1) } }
        guard let style = ReceiptStyle(rawValue: plain[5] >> 1),
            let createdAt = Instant(milliseconds: Int64(bitPattern: number(6..<14)))
        else { return nil }
        return Contents(
            account: SimulatedAccount.Key(story: Int(number(0..<4)), number: Int(plain[4])), style: style,
            environment: plain[5] & 1 == 1 ? .production : .sandbox, createdAt: createdAt, app: number(14..<22))
    }

    private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private func mask(_ bytes: [UInt8], _ nonce: [UInt8]) -> [UInt8] {
        zip(bytes, code("mask", nonce)).map { $0 ^ $1 }
    }

    private func tag(_ bytes: [UInt8]) -> [UInt8] { Array(code("tag", bytes).prefix(Self.tagBytes)) }

    private func code(_ purpose: String, _ bytes: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Array(purpose.utf8) + bytes, using: key))
    }

    /// Appends bytes that look random and depend on the nonce.
    private static func fill(_ bytes: [UInt8], to count: Int) -> [UInt8] {
        var random = SplitMix64(seed: bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        var filled = bytes
        filled.reserveCapacity(count + 8)
        while filled.count < count { withUnsafeBytes(of: random.next().littleEndian) { filled += $0 } }
        return Array(filled.prefix(max(count, bytes.count)))
    }
}

extension ReceiptSeal.Contents {
    fileprivate init(
        account: SimulatedAccount.Key, style: ReceiptStyle, environment: Subscriptions.Environment,
        createdAt: Instant, app: UInt64
    ) {
        self.account = account
        self.style = style
        self.environment = environment
        self.createdAt = createdAt
        self.app = app
    }
}
