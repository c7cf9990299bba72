/// The root certificate of the standard test chain.
///
/// It is fixed because ECDSA signatures differ each time: a root signed in each process would be a different
/// certificate with the same key.
enum MakeBelieveRoot {
    static let pem = """
        -----BEGIN CERTIFICATE-----
        MIICCzCCAZCgAwIBAgIBATAKBggqhkjOPQQDAzBOMScwJQYDVQQDDB5TdWJsZWRn
        ZXIgTWFrZS1CZWxpZXZlIFJvb3QgQ0ExIzAhBgNVBAoMGlN1YmxlZGdlciB0ZXN0
        cywgbm90IEFwcGxlMB4XDTIwMDEwMTAwMDAwMFoXDTQ1MTIzMTIzNTk1OVowTjEn
        MCUGA1UEAwweU3VibGVkZ2VyIE1ha2UtQmVsaWV2ZSBSb290IENBMSMwIQYDVQQK
        DBpTdWJsZWRnZXIgdGVzdHMsIG5vdCBBcHBsZTB2MBAGByqGSM49AgEGBSuBBAAi
        A2IABOp4/IX9SjGam9QOE/NSzUlbojrLqO7gcqHFQaMKDHPzhy4zfRWneoTegL6g
        FdHxZU4hGzK6f5DYj8GOEuLnGK2zT7l4iRs2T4PNn8HscqXSrIbDqsU6CF7CylVF
        fGAf3qNCMEAwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0O
        BBYEFEC3bsWNW/pbLJTDvVd9mUsbi4L4MAoGCCqGSM49BAMDA2kAMGYCMQDArYee
        lw5VJo/BzqKWVCMY9WEl/TP0aqFiqvD5BKKqlNWkWHtrV3hkkoEiYezVTewCMQDV
        yj/E2tw2pkqrS7J6dtffpBDxRC1ZqwHSc6ex6IctrEvDZLDEHHOw3FmGOL8kZiU=
        -----END CERTIFICATE-----
        """
}
