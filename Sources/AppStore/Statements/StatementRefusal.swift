/// Why signed data of a device was rejected. The description is one line and quotes nothing from the data.
package struct StatementRefusal: Error, Hashable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        case tooLong
        case malformed(MalformedJWS)
        /// A genuine JWS may have the payload of another kind of object.
        case otherKind
        /// Renewal info is not about the subscription and environment of the transaction.
        case otherPurchase
        /// One request may not mix environments.
        case otherEnvironment
        /// The signature or its certificates could not be verified.
        case unverified(VerificationFailure)
        case otherApp
        case appleIdWrong
        case environmentRefused
        case appUnknown
    }

    package let part: SignedStatement.Part
    package let problem: Problem
    /// The place of the text in its list, from 0; nil if there is no list.
    package var index: Int?

    init(_ part: SignedStatement.Part, _ problem: Problem) {
        self.part = part
        self.problem = problem
    }

    /// The reason why a check of notifications rejected the part.
    init(_ part: SignedStatement.Part, refusal: Refusal) {
        let problem: Problem =
            switch refusal {
            case .unverified(let failure, _): .unverified(failure)
            case .appleIdWrong: .appleIdWrong
            case .environmentRefused: .environmentRefused
            case .appUnknown: .appUnknown
            case .appMissing, .mismatch, .appWrong, .appAmbiguous, .secretMissing, .secretWrong, .undecodable: .otherApp
            }
        self.init(part, problem)
    }

    func at(_ index: Int?) -> StatementRefusal {
        var copy = self
        copy.index = index
        return copy
    }

    /// The member that contains the text, such as `signedTransaction[1]`.
    package var field: String { part.rawValue + (index.map { "[\($0)]" } ?? "") }

    package var description: String { "\(field) \(explanation)" }

    private var explanation: String {
        switch problem {
        case .tooLong: "is longer than \(SignedStatement.textBytesMax) bytes"
        case .malformed(let problem): problem.explanation
        case .otherKind:
            switch part {
            case .transaction: "is not a transaction: expected transactionId and originalTransactionId in its payload"
            case .renewal: "is not renewal info: expected originalTransactionId, but no transactionId, in its payload"
            case .appTransaction: "is not an app transaction: expected receiptType in its payload"
            }
        case .otherPurchase: "is not of the subscription and environment of signedTransaction"
        case .otherEnvironment: "is of another environment than the first signed text"
        case .unverified(let failure): failure.explanation
        case .otherApp: "is of another app"
        case .appleIdWrong: "does not contain the App Store id (appAppleId) of the app"
        case .environmentRefused: "is of an environment that the app does not accept"
        case .appUnknown: "is of an app that is not configured"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch problem {
        case .tooLong: "too_long"
        case .malformed(let problem): problem.rawValue
        case .otherKind: "other_kind"
        case .otherPurchase: "other_purchase"
        case .otherEnvironment: "other_environment"
        case .unverified(let failure): failure.rawValue
        case .otherApp: "app_wrong"
        case .appleIdWrong: "apple_id_wrong"
        case .environmentRefused: "environment_refused"
        case .appUnknown: "app_unknown"
        }
    }
}
