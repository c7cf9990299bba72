import Encoding

/// What a text says, for those who search it for ids.
enum ErasedText {
    /// The text, with the payloads of the signed texts in it, and of those in these.
    static func opened(_ text: String) -> String {
        // A pattern over megabytes takes minutes.
        text.utf8.split { !isOfSignedText($0) }.reduce(text) { all, part in
            let sections = part.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            guard sections.count == 3, !sections.contains(where: \.isEmpty),
                let payload = Base64.decode(Array(sections[1])[...], .url)
            else { return all }
            return all + opened(String(decoding: payload, as: UTF8.self))
        }
    }

    private static func isOfSignedText(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}
