import Encoding
import PlayStore
import Subscriptions

/// A configured app of Google Play, with what the server does for it.
package struct GoogleApp: Sendable, Hashable {
    package let play: PlayApp
    /// With which the Play Developer API is asked; nil if it is not.
    package let credentials: GoogleCredentials?
    /// Whether the server acknowledges purchases. Google refunds those that are not acknowledged within three days.
    package let acknowledges: Bool
    /// Whether purchases are asked about at times without a notification.
    package let polling: Bool
    /// The key with which Google signs the app's purchases, as the Play Console shows it; nil if signed purchases cannot
    /// be handed in.
    package let licenseKey: String?
    /// Who owns a subscription that several app users bought or linked.
    package let ownership: OwnershipRules
    /// The app of the App Store whose customers are also this app's; nil if there is none.
    package let joinedWith: String?

    package var packageName: String { play.packageName }

    package init(
        _ play: PlayApp, credentials: GoogleCredentials? = nil, acknowledges: Bool = true, polling: Bool = true,
        licenseKey: String? = nil, ownership: OwnershipRules = .standard, joinedWith: String? = nil
    ) {
        self.play = play
        self.credentials = credentials
        self.acknowledges = acknowledges
        self.polling = polling
        self.licenseKey = licenseKey
        self.ownership = ownership
        self.joinedWith = joinedWith
    }
}

/// What access tokens are issued for.
package enum GoogleCredentials: Sendable, Hashable {
    case serviceAccount(ServiceAccount)
    case refreshToken(RefreshToken)

    /// Names the account. Its quotas and its access tokens belong to it.
    var account: String {
        switch self {
        case .serviceAccount(let account): account.email
        case .refreshToken(let token): token.clientId
        }
    }

    /// - Parameter now: Our clock.
    func request(at now: Instant) throws -> AccessTokenRequest {
        switch self {
        case .serviceAccount(let account): try AccessTokenRequest(account, at: now)
        case .refreshToken(let token): AccessTokenRequest(token)
        }
    }
}
