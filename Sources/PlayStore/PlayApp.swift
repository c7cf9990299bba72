import Subscriptions

/// A configured app on Google Play, as far as pushes and answers need to know it.
package struct PlayApp: Sendable, Hashable {
    package let packageName: String
    package let pushAuthentication: PushAuthentication
    /// `projects/{project}/subscriptions/{name}` of the push subscription; nil to accept any.
    package let pushSubscription: String?
    /// Whether test purchases are accepted besides real ones.
    package let environments: Set<Environment>

    package init(
        packageName: String, pushAuthentication: PushAuthentication, pushSubscription: String? = nil,
        environments: Set<Environment> = [.production, .sandbox]
    ) {
        self.packageName = packageName
        self.pushAuthentication = pushAuthentication
        self.pushSubscription = pushSubscription
        self.environments = environments
    }
}
