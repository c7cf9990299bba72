import Encoding
import HTTPTypes
import Hummingbird
import Metrics

/// The user of an app, whom an assertion of the app's backend names, while a request with a publishable token is answered.
struct AppUser: Sendable, Hashable {
    /// Nil for requests of backends and operators.
    @TaskLocal static var current: AppUser?

    let app: String
    let customerId: String

    /// - Parameter app: Of the request; nil if it names none.
    /// - Throws: A 403 if it is another one.
    func check(app: String?) throws(Problem) {
        guard app == self.app else {
            throw Problem(.forbidden, "a publishable token is for one app: app must be that one", field: "app")
        }
    }

    /// - Throws: A 403 if the customer is another one.
    func check(customerId: String) throws(Problem) {
        guard customerId == self.customerId else {
            throw Problem(.forbidden, "the customer is not the one of the assertion", field: "customerId")
        }
    }

    /// The customer of a hand-in: as the body names it; the app's user, if an app sends it.
    static func customerId(of json: JSONValue) throws -> String? {
        let stated = try json.customerId()
        guard let user = current else { return stated }
        if let stated { try user.check(customerId: stated) }
        return user.customerId
    }
}

/// Admits requests of apps, which anyone can read a publishable token from: within limits, and for the customer whom the app's
/// backend asserts.
package final class AppGate: Sendable {
    static let header = HTTPField.Name("Subledger-Assertion")

    private let keys: [String: AssertionKeys]
    private let now: @Sendable () -> Instant
    private let addresses = KeyedBuckets<PeerAddress>(
        perSecond: Limits.appRequestsPerSecond, capacity: Limits.appRequestBurstMax, keysMax: Limits.appAddressesMax)
    private let users = KeyedBuckets<AppUser>(
        perSecond: Limits.userRequestsPerSecond, capacity: Limits.userRequestBurstMax,
        keysMax: Limits.handInCustomersMax)

    /// - Parameter keys: By app.
    package init(keys: [String: AssertionKeys] = [:], now: @escaping @Sendable () -> Instant) {
        self.keys = keys
        self.now = now
    }

    /// Counts a request of an address.
    ///
    /// - Throws: ``Problem`` with status 429.
    func admit(from address: PeerAddress, at instant: ContinuousClock.Instant = .now) throws(Problem) {
        guard addresses.admit(address, at: instant) else {
            throw Self.tooMany(
                "too many requests from this address: at most \(Limits.appRequestsPerSecond) per second")
        }
    }

    /// The user of a request whose publishable token is known, and whose address is counted.
    ///
    /// - Throws: ``Problem`` with status 401, 403 or 429.
    func user(
        of request: Request, of app: String, at instant: ContinuousClock.Instant = .now
    ) throws(Problem) -> AppUser {
        guard let keys = keys[app] else {
            throw Self.refusal(
                Problem(.forbidden, "no keys for assertions of this app: see \"assertions\" in the apps file"),
                "assertion_keys_missing")
        }
        guard let text = Self.header.flatMap({ request.headers[$0] }) else {
            throw Self.unauthorized("assertion_missing", "missing header Subledger-Assertion")
        }
        let assertion: UserAssertion
        do throws(UserAssertion.Refusal) {
            assertion = try UserAssertion(text, of: app, keys: keys, at: now())
        } catch {
            throw Self.unauthorized("assertion_wrong", error.rawValue)
        }
        let user = AppUser(app: app, customerId: assertion.customerId)
        guard users.admit(user, at: instant) else {
            throw Self.tooMany(
                "too many requests of this customer: at most \(Limits.userRequestsPerSecond) per second")
        }
        return user
    }

    private static func unauthorized(_ reason: String, _ detail: String) -> Problem {
        refusal(
            Problem(.unauthorized, detail, headers: [.wwwAuthenticate: "Bearer error=\"invalid_token\""]), reason)
    }

    static func tooMany(_ detail: String) -> Problem {
        refusal(
            Problem(.tooManyRequests, detail, headers: [.retryAfter: "\(Limits.retryAfterSeconds)"]), "too_many")
    }

    static func refusal(_ problem: Problem, _ reason: String) -> Problem {
        Counter(label: "subledger_requests_refused_total", dimensions: [("reason", reason)]).increment()
        return problem
    }
}
