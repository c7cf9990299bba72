/// Why a text is not a receipt. The description is one line and quotes nothing from the text.
package enum ReceiptProblem: Error, Hashable, CustomStringConvertible {
    case empty
    case notBase64
    /// Form encoding sends "+" as a blank unless it is escaped, which is the usual cause of Apple's status 21002.
    case blanksInsteadOfPlus
    case tooLong

    package var description: String {
        switch self {
        case .empty: "the receipt is empty"
        case .notBase64: "the receipt is not base64: expected the standard alphabet, with + and /"
        case .blanksInsteadOfPlus:
            "the receipt contains blanks: form encoding probably turned each + of its base64 into a blank"
        case .tooLong: "the receipt is too long: expected at most \(Receipt.bytesMax >> 20) MiB of base64"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .empty: "empty"
        case .notBase64: "not_base64"
        case .blanksInsteadOfPlus: "blanks_instead_of_plus"
        case .tooLong: "too_long"
        }
    }
}
