/// The keys with which Google signs the tokens of its pushes.
package protocol PushKeys: Sendable {
    /// The keys as far as they are known and still valid; empty if none is.
    var known: JSONWebKeySet { get }

    /// The keys, fetched again for a token with an unknown one.
    ///
    /// - Returns: Nil if they cannot be fetched: it is not known then whether the token is genuine.
    func fetched() async -> JSONWebKeySet?
}
