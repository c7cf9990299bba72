/// The `status` of an answer of verifyReceipt. Numbers that this version does not know are kept.
package struct ReceiptStatus: Sendable, Hashable, CustomStringConvertible {
    package let number: Int

    package init(number: Int) {
        self.number = number
    }

    /// What the asker does about a status.
    package enum Action: Sendable, Hashable {
        /// The answer contains the decoded receipt.
        case accept
        /// The customer's account was deleted. Counts as if nothing had ever been bought.
        case accountDeleted
        /// The receipt belongs to the other host.
        case askOtherHost
        /// A temporary failure, which never changes access.
        case retry
        /// A temporary failure or a malformed receipt: refuse after a few tries.
        case retryThenRefuse
        case refuse
        /// The shared secret is wrong, which an operator must correct.
        case alarm
    }

    /// - Parameters:
    ///   - host: The host that answered. One that refers to itself is not asked again.
    ///   - isRetryable: The answer's own statement, which has a meaning for 21100 to 21199 only.
    package func action(from host: ReceiptHost, isRetryable: Bool?) -> Action {
        switch number {
        case 0, 21006: .accept
        case 21010: .accountDeleted
        case 21007: host == .production ? .askOtherHost : .refuse
        case 21008: host == .sandbox ? .askOtherHost : .refuse
        case _ where isPerhapsTemporary: .retryThenRefuse
        case 21000, 21003: .refuse
        case 21004: .alarm
        case 21100...21199: isRetryable == false ? .refuse : .retry
        // 21005, 21009, and all numbers that Apple does not document.
        default: .retry
        }
    }

    /// True for a status that Apple gives to malformed receipts, and to genuine ones while it is ill.
    package var isPerhapsTemporary: Bool { number == 21001 || number == 21002 }

    /// The meaning according to Apple.
    package var meaning: String {
        switch number {
        case 0: "the receipt is valid"
        case 21000: "the App Store could not read the request"
        case 21001, 21002: "the receipt is malformed, or the App Store had a temporary failure"
        case 21003: "the receipt could not be authenticated"
        case 21004: "the shared secret is not that of the app"
        case 21005: "the receipt server is temporarily unavailable"
        case 21006: "the receipt is valid, and its subscription has expired"
        case 21007: "the receipt is from the sandbox"
        case 21008: "the receipt is from production"
        case 21009: "internal data access error of the App Store"
        case 21010: "the customer's account does not exist or was deleted"
        case 21100...21199: "internal data access error of the App Store"
        default: "a status that Apple does not document"
        }
    }

    package var description: String { "status \(number): \(meaning)" }
}
