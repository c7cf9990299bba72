import Glibc
import Subscriptions

/// A version 1 notification as its sender wrote it: decoded, and not to be trusted.
package struct V1Notification: Sendable {
    let document: JSONDocument

    /// - Throws: ``UndecodableBody`` if the body is no V1 notification at all. Odd or missing fields are no reason:
    ///   they become defects of the event.
    package init(decoding body: [UInt8]) throws(UndecodableBody) {
        do throws(JSONError) {
            document = try JSONDocument(body)
        } catch {
            throw .notJSON(error)
        }
        let root = document.root
        guard root.isObject else { throw .notAnObject }
        // A TEST notification is signed even at a URL that is registered for version 1.
        if root["signedPayload"]?.isString == true { throw .signed }
        guard let type = root["notification_type"], !type.isNull else { throw .notANotification }
    }

    /// The app's shared secret as the sender knows it; nil when absent or blank.
    var password: String? {
        document.root["password"]?.string.flatMap { isBlank($0) ? nil : $0 }
    }

    /// The body with every value under `password`, and any other text that holds the secret, emptied.
    func bodyWithoutSecret() -> [UInt8] {
        var cuts: [Range<Int>] = []
        document.root.forEachEntry(named: "password") { if $0.isString { cuts.append($0.contentRange) } }
        if let secret = password {
            let needle = Array(secret.utf8)
            document.forEachString { text in
                let found = occurrences(of: needle, in: document.bytes, within: text.contentRange)
                // Cutting a part of a text with escapes could cut an escape in two.
                if text.isEscaped {
                    if !found.isEmpty || text.string?.contains(secret) == true { cuts.append(text.contentRange) }
                } else {
                    cuts += found
                }
            }
        }
        var result: [UInt8] = []
        result.reserveCapacity(document.bytes.count)
        var copied = 0
        for cut in cuts.sorted(by: { $0.lowerBound < $1.lowerBound }) where cut.upperBound > copied {
            if cut.lowerBound > copied { result += document.bytes[copied..<cut.lowerBound] }
            copied = cut.upperBound
        }
        return result + document.bytes[copied...]
    }
}

func isBlank(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
}

private func occurrences(of needle: [UInt8], in haystack: [UInt8], within range: Range<Int>) -> [Range<Int>] {
    guard let first = needle.first, needle.count <= range.count else { return [] }
    return haystack.withUnsafeBytes { bytes in
        var result: [Range<Int>] = []
        var start = range.lowerBound
        while start + needle.count <= range.upperBound, let base = bytes.baseAddress,
            let found = memchr(base + start, Int32(first), range.upperBound - needle.count - start + 1)
        {
            let index = UnsafeRawPointer(found) - base
            let isMatch = memcmp(found, needle, needle.count) == 0
            if isMatch { result.append(index..<index + needle.count) }
            start = isMatch ? index + needle.count : index + 1
        }
        return result
    }
}
