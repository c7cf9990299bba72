import Subscriptions

/// The app and environments that signed data must be of. Properties that are nil are not checked.
package struct AppExpectation: Sendable {
    package var bundleId: String?
    /// Checked for the production environment only, the only one that always contains it.
    package var appAppleId: Int64?
    package var environments: Set<Environment>?

    package init(bundleId: String? = nil, appAppleId: Int64? = nil, environments: Set<Environment>? = nil) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environments = environments
    }

    /// The expectation of a configured app. Unknown environments are accepted too, so that nothing is lost: they have
    /// streams of their own.
    init(_ app: App) {
        bundleId = app.bundleId
        appAppleId = app.appAppleId
        environments = app.environments.union([.unknown])
    }

    /// Checks a notification and its signed parts.
    package func check(_ notification: V2Notification) throws(Refusal) {
        let claim = notification.claim
        try check(claim, .notification)
        for (part, jws) in notification.parts where part != .notification {
            var inner = AppClaim(jws.payload.root)
            // Some old purchases name no app, and no part named its environment before 2022. The notification around them is
            // signed too, so they are of what it names.
            if part == .transaction, jws.payload.root["transactionId"] != nil {
                inner.bundleId = inner.bundleId ?? claim.bundleId
            }
            if part != .appTransaction { inner.environment = inner.environment ?? claim.environment }
            guard inner.environment == claim.environment, part == .renewal || inner.bundleId == claim.bundleId else {
                throw .mismatch(part)
            }
            try check(inner, part)
        }
    }

    /// Checks a signed object that is not part of a notification.
    package func check(_ object: SignedObject) throws(Refusal) {
        try check(AppClaim(object.jws.payload.root), object.part)
    }

    func check(_ claim: AppClaim, _ part: V2Notification.Part) throws(Refusal) {
        // Renewal info names no app.
        if let bundleId, part != .renewal, claim.bundleId != bundleId { throw .appWrong }
        let environment = claim.environment ?? .unknown
        if let environments, !environments.contains(environment) {
            throw .environmentRefused(app: bundleId ?? claim.bundleId)
        }
        let carriesAppleId = part == .notification || part == .appTransaction
        if let appAppleId, carriesAppleId, environment == .production, claim.appAppleId != appAppleId {
            throw .appleIdWrong(app: bundleId ?? claim.bundleId)
        }
    }
}

/// A signed object outside any notification, as returned by the App Store's API and by devices. Not verified, so it
/// must not be trusted.
package struct SignedObject: Sendable {
    package let jws: JWS
    /// The part of a notification that has the same content, inferred from the payload's keys.
    package let part: V2Notification.Part

    package init(_ text: ArraySlice<UInt8>) throws(MalformedJWS) {
        jws = try JWS(text)
        let root = jws.payload.root
        part =
            if root["receiptType"] != nil || root["receiptCreationDate"] != nil {
                .appTransaction
            } else {
                root["transactionId"] != nil || root["bundleId"] != nil ? .transaction : .renewal
            }
    }

    init(_ jws: JWS, as part: V2Notification.Part) {
        self.jws = jws
        self.part = part
    }

    package var environment: Environment? { AppClaim(jws.payload.root).environment }
}
